// Columns of numbers as the program writes them: base64 of zigzag differences, seven bits a byte.
// Plain arithmetic, since numbers reach up to 2^53.
function readColumn(text, count) {
  const bytes = atob(text);
  const column = new Float64Array(count);
  let at = 0;
  let last = 0;
  for (let i = 0; i < count; i++) {
    let number = 0;
    let weight = 1;
    let byte;
    do {
      byte = bytes.charCodeAt(at++);
      number += (byte & 127) * weight;
      weight *= 128;
    } while (byte > 127);
    last += number % 2 === 1 ? -(number + 1) / 2 : number / 2;
    column[i] = last;
  }
  return column;
}

function readColumns(table) {
  const columns = { count: table.count };
  for (const name in table)
    if (name !== "count") columns[name] = readColumn(table[name], table.count);
  return columns;
}

// How many items of a rising column are at most `value`.
function countUpTo(column, value) {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
