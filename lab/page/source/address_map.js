// Each block as a rectangle: from its allocation to its free, from its first address to its last. One canvas
// has the blocks and is drawn when the stretch changes, the other one the moment and the block under the
// pointer, so that scrubbing draws almost nothing.
const addressMap = (function () {
  const target = find("map");
  const base = find("map-blocks");
  const over = find("map-over");
  const axes = {};
  let box = { left: 74, width: 100, height: 300 };
  let hovered = -1;
  let drawnSize = "";

  function axisOf(name) {
    if (axes[name]) return axes[name];
    const event = name === "event";
    const last = event ? DATA.events + 1 : DATA.sum.span_us;
    const ends = (table) => {
      const from = event ? table.from : table.from_us;
      const to = Float64Array.from({ length: table.count }, (_, i) =>
        table.to[i] === 0 || (table.lost && table.lost[i] === LOST) ? last : event ? table.to[i] : table.to_us[i]);
      return { from, to };
    };
    axes[name] = { blocks: ends(blocks), segments: ends(segments) };
    return axes[name];
  }
  const toX = (x) => box.left + ((x - view.state.from) / (view.state.to - view.state.from)) * box.width;
  // Low addresses are at the bottom.
  const toY = (spot) => box.height - ((spot - view.state.low) / (view.state.high - view.state.low)) * box.height;
  const fromX = (x) => view.state.from + ((x - box.left) / box.width) * (view.state.to - view.state.from);
  const fromY = (y) => view.state.low + ((box.height - y) / box.height) * (view.state.high - view.state.low);

  function prepare(canvas) {
    const ratio = devicePixelRatio;
    const width = target.clientWidth;
    const height = target.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const ctx = canvas.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    return ctx;
  }
  function measure() {
    const edges = timeline.edges();
    box = { left: edges.left, width: edges.width, height: target.clientHeight };
  }
  // Rectangles of a table that can be seen, at least a hair wide and high.
  function drawAll(ctx, xs, spots, bytes, order, colourOf) {
    const { from, to, low, high } = view.state;
    const scaleX = box.width / (to - from);
    const scaleY = box.height / (high - low);
    const ratio = devicePixelRatio;
    const hair = 1 / ratio;
    let colour = "";
    for (let k = 0; k < spots.length; k++) {
      const i = order ? order[k] : k;
      if (xs.to[i] < from || xs.from[i] > to || spots[i] > high || spots[i] + bytes[i] < low) continue;
      // On whole pixels, which is sharper and faster.
      const left = Math.round(Math.max(box.left, box.left + (xs.from[i] - from) * scaleX) * ratio) / ratio;
      const right = Math.round(Math.min(box.left + box.width, box.left + (xs.to[i] - from) * scaleX) * ratio) / ratio;
      const top = Math.round(Math.max(0, box.height - (spots[i] + bytes[i] - low) * scaleY) * ratio) / ratio;
      const bottom = Math.round(Math.min(box.height, box.height - (spots[i] - low) * scaleY) * ratio) / ratio;
      const fill = colourOf(i);
      if (fill !== colour) ctx.fillStyle = colour = fill;
      const tall = bottom - top;
      ctx.fillRect(left, top, Math.max(right - left, hair), tall > 4 ? tall - hair : Math.max(tall, hair));
    }
  }
  function drawCuts(ctx, theme) {
    ctx.save();
    ctx.strokeStyle = theme.muted;
    ctx.setLineDash([2, 4]);
    for (const cut of squeeze.cuts) {
      const y = toY(cut.place + cut.length / 2);
      if (y < 0 || y > box.height) continue;
      ctx.beginPath();
      ctx.moveTo(box.left, y);
      ctx.lineTo(box.left + box.width, y);
      ctx.stroke();
    }
    ctx.restore();
  }
  function drawAxis(ctx, theme) {
    ctx.fillStyle = theme.muted;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textAlign = "right";
    const rows = box.height < 220 ? 3 : 5;
    for (let k = 0; k <= rows; k++) {
      const y = (box.height * k) / rows;
      ctx.textBaseline = k === 0 ? "top" : k === rows ? "bottom" : "middle";
      ctx.fillText(sizeText(Math.max(0, squeeze.addressOf(fromY(y))), 1), box.left - 8, y);
    }
  }
  function drawBase() {
    measure();
    const ctx = prepare(base);
    const theme = colours.theme();
    const axis = axisOf(view.state.axis);
    const palette = colours.palette();
    ctx.fillStyle = theme.never;
    ctx.fillRect(box.left, 0, box.width, box.height);
    if (segments.count === 0) {
      ctx.fillStyle = theme.held;
      ctx.fillRect(box.left, 0, box.width, box.height);
    }
    drawAll(ctx, axis.segments, squeeze.segments, segments.bytes, null, () => theme.held);
    drawAll(ctx, axis.blocks, squeeze.blocks, blocks.bytes, colours.order, (i) => palette[colours.ofBlock[i]]);
    drawCuts(ctx, theme);
    drawAxis(ctx, theme);
  }
  function drawOver() {
    const ctx = prepare(over);
    const theme = colours.theme();
    const axis = axisOf(view.state.axis);
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, 0, box.width, box.height);
    ctx.clip();
    if (hovered >= 0) {
      const i = hovered;
      const x = toX(axis.blocks.from[i]);
      const y = toY(squeeze.blocks[i] + blocks.bytes[i]);
      ctx.strokeStyle = theme.ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 1, y - 1, Math.max(2, toX(axis.blocks.to[i]) - x) + 2, Math.max(2, toY(squeeze.blocks[i]) - y) + 2);
    }
    ctx.fillStyle = theme.oom;
    for (let i = 0; i < ooms.count; i++) {
      const x = toX(view.state.axis === "event" ? ooms.number[i] : ooms.time_us[i]);
      ctx.globalAlpha = 0.5;
      ctx.fillRect(x - 0.5, 0, 1, box.height);
    }
    ctx.globalAlpha = 1;
    const x = toX(view.placeOfMoment());
    ctx.fillStyle = theme.moment;
    ctx.fillRect(x - 1, 0, 2, box.height);
    ctx.restore();
  }
  // The block under a point: the smallest one near it, since small ones are drawn larger than they are.
  function blockAt(x, y) {
    const axis = axisOf(view.state.axis).blocks;
    const place = fromX(x);
    const spot = fromY(y);
    const nearX = (1.5 / box.width) * (view.state.to - view.state.from);
    const nearY = (1.5 / box.height) * (view.state.high - view.state.low);
    let best = -1;
    for (let i = 0; i < blocks.count; i++) {
      if (axis.from[i] > place + nearX || axis.to[i] < place - nearX) continue;
      if (squeeze.blocks[i] > spot + nearY || squeeze.blocks[i] + blocks.bytes[i] < spot - nearY) continue;
      const inside = axis.from[i] <= place && axis.to[i] >= place && squeeze.blocks[i] <= spot && squeeze.blocks[i] + blocks.bytes[i] >= spot;
      if (inside) return i;
      if (best < 0 || blocks.bytes[i] < blocks.bytes[best]) best = i;
    }
    return best;
  }
  function within(event) {
    const bounds = target.getBoundingClientRect();
    return { x: event.clientX - bounds.left - target.clientLeft, y: event.clientY - bounds.top - target.clientTop };
  }
  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    view.change("hover");
  }
  let scrubbing = false;
  function scrub(event) {
    view.choose(view.eventAt(fromX(within(event).x)));
  }
  target.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    scrubbing = true;
    target.setPointerCapture(event.pointerId);
    scrub(event);
  });
  target.addEventListener("pointermove", (event) => {
    const { x, y } = within(event);
    if (scrubbing) scrub(event);
    const there = x >= box.left && x <= box.left + box.width && y >= 0 && y <= box.height;
    const i = there ? blockAt(x, y) : -1;
    hover(i);
    if (i >= 0) tip.showBlock(i, Math.max(blocks.from[i], view.eventAt(fromX(x))), event);
    else tip.hide();
  });
  for (const name of ["pointerup", "pointercancel"]) target.addEventListener(name, () => (scrubbing = false));
  target.addEventListener("pointerleave", () => {
    hover(-1);
    tip.hide();
  });
  target.addEventListener("dblclick", () => view.showAll());
  listenToWheel(target, (event) => fromX(within(event).x), (event) => fromY(within(event).y));
  listenToKeys(target);

  view.drawers.push((changed) => {
    const size = target.clientWidth + "x" + target.clientHeight + "@" + devicePixelRatio;
    const whole = ["stretch", "axis", "theme", "colours", "edges"].some((name) => changed.has(name)) || size !== drawnSize;
    drawnSize = size;
    if (whole) drawBase();
    if (whole || changed.has("moment") || changed.has("hover")) drawOver();
  });
})();
