// What the program wrote into the page.
const DATA = JSON.parse(find("data").textContent);
find("data").remove();

const points = readColumns(DATA.points);
const blocks = readColumns(DATA.blocks);
const segments = readColumns(DATA.segments);
const ooms = readColumns(DATA.ooms);

// The last point at or before an event.
function pointAt(number) {
  return Math.max(0, countUpTo(points.number, number) - 1);
}

function timeAt(number) {
  return points.count > 0 ? points.time_us[pointAt(number)] : 0;
}

const LOST = 1;
const WAITED = 2;

// Whether a block is there after an event: in use, or freed but lost for good.
function isThere(i, number) {
  return blocks.from[i] <= number && (blocks.to[i] === 0 || blocks.to[i] > number || blocks.lost[i] === LOST);
}

function isLostAt(i, number) {
  return blocks.lost[i] === LOST && blocks.to[i] <= number;
}
