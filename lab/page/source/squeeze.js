// Addresses without the long stretches that nobody ever used: those are cut short, so that what is used
// can be seen. Positions are bytes on the squeezed axis.
const squeeze = (function () {
  const all = [];
  for (const table of [segments, blocks])
    for (let i = 0; i < table.count; i++) all.push([table.offset[i], table.offset[i] + table.bytes[i]]);
  all.sort((a, b) => a[0] - b[0]);
  const used = [];
  for (const [from, to] of all) {
    const last = used[used.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else used.push([from, to]);
  }
  const sum = used.reduce((bytes, range) => bytes + range[1] - range[0], 0) || 1;
  const longest = sum / 50;
  const gap = sum / 100;
  const froms = [];
  const places = [];
  const cuts = [];
  let place = 0;
  let end = used.length > 0 ? used[0][0] : 0;
  for (const [from, to] of used) {
    const empty = from - end;
    if (empty > longest) {
      cuts.push({ place, bytes: empty, length: gap });
      place += gap;
    } else {
      place += empty;
    }
    froms.push(from);
    places.push(place);
    place += to - from;
    end = to;
  }
  const length = Math.max(place, 1);
  const starts = Float64Array.from(froms);
  const spots = Float64Array.from(places);

  function placeOf(address) {
    const i = Math.max(0, countUpTo(starts, address) - 1);
    return starts.length > 0 ? spots[i] + (address - starts[i]) : address;
  }
  function addressOf(spot) {
    const i = Math.max(0, countUpTo(spots, spot) - 1);
    return starts.length > 0 ? starts[i] + (spot - spots[i]) : spot;
  }
  function columnOf(table) {
    return Float64Array.from({ length: table.count }, (_, i) => placeOf(table.offset[i]));
  }
  return { length, cuts, placeOf, addressOf, blocks: columnOf(blocks), segments: columnOf(segments) };
})();
