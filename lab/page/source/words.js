// Numbers as people read them.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Two places from GiB on: there a tenth is more than most differences.
function sizeText(bytes, digits) {
  let unit = 0;
  let size = bytes;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  return (unit === 0 ? String(size) : size.toFixed(digits ?? (unit < 3 ? 1 : 2))) + " " + UNITS[unit];
}

function countText(number) {
  return Math.round(number).toLocaleString("en-US");
}

function timeText(us) {
  if (us < 1000) return Math.round(us) + " \u00b5s";
  if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 2 : 1) + " ms";
  if (us < 120e6) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
  if (us < 7200e6) return (us / 60e6).toFixed(1) + " min";
  return (us / 3600e6).toFixed(1) + " h";
}

function shareText(share) {
  return (100 * share).toFixed(1) + " %";
}

function plural(count, one, many) {
  return countText(count) + " " + (count === 1 ? one : many);
}

// Whatever a log calls itself is shown as text, never read as markup.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function find(id) {
  return document.getElementById(id);
}
