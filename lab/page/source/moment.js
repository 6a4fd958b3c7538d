// All memory at one moment, as a strip of addresses that goes on row by row, and the figures of that moment.
const moment = (function () {
  const strip = find("strip");
  const ROWS = 8;
  const GAP = 5;
  let shown = [];
  let hovered = -1;
  let playing = 0;

  function liveAt(number) {
    const there = [];
    for (let i = 0; i < blocks.count; i++) if (isThere(i, number)) there.push(i);
    return there;
  }
  function rowHeight() {
    return (strip.clientHeight - (ROWS - 1) * GAP) / ROWS;
  }
  // A stretch of the squeezed axis as pieces of rows.
  function eachPiece(spot, bytes, see) {
    const perRow = squeeze.length / ROWS;
    const width = strip.clientWidth;
    const first = Math.min(ROWS - 1, Math.floor(spot / perRow));
    const last = Math.min(ROWS - 1, Math.floor((spot + bytes) / perRow));
    for (let row = first; row <= last; row++) {
      const from = Math.max(spot, row * perRow);
      const to = Math.min(spot + bytes, (row + 1) * perRow);
      if (to > from || row === first)
        see(((from - row * perRow) / perRow) * width, row * (rowHeight() + GAP), Math.max(0.6, ((to - from) / perRow) * width), rowHeight());
    }
  }
  function draw() {
    const ratio = devicePixelRatio;
    const width = strip.clientWidth;
    const height = strip.clientHeight;
    strip.width = Math.round(width * ratio);
    strip.height = Math.round(height * ratio);
    const ctx = strip.getContext("2d");
    const theme = colours.theme();
    const palette = colours.palette();
    const number = view.state.moment;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.fillStyle = segments.count === 0 ? theme.held : theme.never;
    eachPiece(0, squeeze.length, (x, y, w, h) => ctx.fillRect(x, y, w, h));
    for (let i = 0; i < segments.count; i++) {
      if (segments.from[i] > number || (segments.to[i] !== 0 && segments.to[i] <= number)) continue;
      ctx.fillStyle = theme.held;
      eachPiece(squeeze.segments[i], segments.bytes[i], (x, y, w, h) => ctx.fillRect(x, y, w, h));
      ctx.fillStyle = theme.muted;
      eachPiece(squeeze.segments[i], 0, (x, y, w, h) => ctx.fillRect(x, y, 1, h));
    }
    for (const i of shown) {
      ctx.fillStyle = isLostAt(i, number) ? theme.lost : palette[colours.ofBlock[i]];
      eachPiece(squeeze.blocks[i], blocks.bytes[i], (x, y, w, h) => ctx.fillRect(x, y, w > 3 ? w - 0.7 : w, h));
    }
    if (hovered >= 0) {
      ctx.strokeStyle = theme.ink;
      ctx.lineWidth = 2;
      eachPiece(squeeze.blocks[hovered], blocks.bytes[hovered], (x, y, w, h) => ctx.strokeRect(x - 1, y + 1, w + 2, h - 2));
    }
  }
  function describe() {
    const number = view.state.moment;
    if (points.count === 0) {
      find("moment-text").textContent = "Nothing happens in this log.";
      return;
    }
    const at = pointAt(number);
    const reserved = points.reserved[at];
    const live = points.live[at];
    const parts = [
      "Event " + countText(number) + " of " + countText(DATA.events) + (DATA.times ? " (" + timeText(timeAt(number)) + ")" : "") + ":",
      sizeText(live) + " live in " + plural(shown.length, "block", "blocks") + (DATA.blocks_in_all > blocks.count ? " of the map," : ","),
      sizeText(reserved) + " reserved,",
      "largest free piece " + sizeText(points.largest[at]) + ".",
    ];
    const refused = countUpTo(ooms.number, number);
    if (refused > 0 && ooms.number[refused - 1] === number)
      parts.push("Here " + sizeText(ooms.bytes[refused - 1]) + " were refused: out of memory.");
    find("moment-text").textContent = parts.join(" ");
    const slider = find("scrub");
    slider.value = String(number);
    slider.setAttribute("aria-valuetext", "event " + countText(number) + ", " + sizeText(live) + " live, " + sizeText(reserved) + " reserved");
  }
  function list() {
    const table = find("largest");
    if (!table.closest("details").open) return;
    const number = view.state.moment;
    const head = element("tr");
    for (const name of ["allocation", "size", "address", "since event", "age", "stream"]) head.append(element("th", name));
    table.tHead.replaceChildren(head);
    const largest = [...shown].sort((a, b) => blocks.bytes[b] - blocks.bytes[a]).slice(0, 20);
    table.tBodies[0].replaceChildren(
      ...largest.map((i) => {
        const row = element("tr");
        const age = DATA.times ? timeText(timeAt(number) - blocks.from_us[i]) : plural(number - blocks.from[i], "event", "events");
        for (const text of ["#" + countText(blocks.id[i]), sizeText(blocks.bytes[i]), "0x" + blocks.offset[i].toString(16), countText(blocks.from[i]), age, String(blocks.stream[i])])
          row.append(element("td", text));
        return row;
      }),
    );
  }
  function blockAt(event) {
    const bounds = strip.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const y = event.clientY - bounds.top;
    const row = Math.floor(y / (rowHeight() + GAP));
    const perRow = squeeze.length / ROWS;
    const near = (1.5 / strip.clientWidth) * perRow;
    const spot = row * perRow + (x / strip.clientWidth) * perRow;
    let best = -1;
    for (const i of shown) {
      const from = squeeze.blocks[i];
      const to = from + blocks.bytes[i];
      if (from <= spot && spot < to) return i;
      if (from - near <= spot && spot < to + near) best = i;
    }
    return best;
  }
  strip.addEventListener("pointermove", (event) => {
    const i = blockAt(event);
    if (i !== hovered) {
      hovered = i;
      draw();
    }
    if (i >= 0) tip.showBlock(i, view.state.moment, event);
    else tip.hide();
  });
  strip.addEventListener("pointerleave", () => {
    hovered = -1;
    draw();
    tip.hide();
  });

  function stop() {
    playing = 0;
    find("play").textContent = "Play";
    find("play").setAttribute("aria-pressed", "false");
  }
  // Through what is shown, in ten seconds.
  function play() {
    if (playing) return stop();
    const first = view.eventAt(view.state.from);
    const last = view.eventAt(view.state.to);
    if (view.state.moment >= last || view.state.moment < first) view.choose(first);
    const begun = performance.now();
    const from = view.state.moment;
    const run = (playing = begun);
    find("play").textContent = "Stop";
    find("play").setAttribute("aria-pressed", "true");
    const step = (now) => {
      if (playing !== run) return;
      const next = from + ((now - begun) / 10000) * (last - first);
      view.choose(Math.min(next, last));
      if (next >= last) stop();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
  const slider = find("scrub");
  slider.max = String(Math.max(1, DATA.events));
  slider.addEventListener("input", () => {
    stop();
    view.choose(Number(slider.value));
    view.follow();
  });
  const step = (by) => {
    stop();
    view.choose(view.state.moment + by);
    view.follow();
  };
  find("step-back").addEventListener("click", () => step(-1));
  find("step-on").addEventListener("click", () => step(1));
  find("play").addEventListener("click", play);
  find("to-peak").addEventListener("click", () => step(DATA.sum.peak_live_event - view.state.moment));
  find("to-oom").hidden = ooms.count === 0;
  find("to-oom").addEventListener("click", () => {
    const next = countUpTo(ooms.number, view.state.moment);
    step(ooms.number[next < ooms.count ? next : 0] - view.state.moment);
  });
  find("largest").closest("details").addEventListener("toggle", list);

  view.drawers.push((changed) => {
    if (!["moment", "theme", "size", "colours"].some((name) => changed.has(name))) return;
    shown = liveAt(view.state.moment);
    if (hovered >= 0 && !shown.includes(hovered)) hovered = -1;
    draw();
    describe();
    list();
  });
  return { stop };
})();
