// Reserved and live memory over time, by uPlot. Floor, device, refusals and the moment are drawn over it.
const timeline = (function () {
  const target = find("timeline");
  const times = points.time_us;
  const numbers = points.number;
  let chart = null;
  let drawn = { width: 0, axis: "" };

  function height() {
    return innerWidth < 560 ? 220 : 280;
  }
  function dashed(u, bytes, colour, text, onLeft) {
    const y = Math.round(u.valToPos(bytes, "y", true));
    const { left, top, width, height: tall } = u.bbox;
    if (y < top || y > top + tall) return;
    const ctx = u.ctx;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textAlign = onLeft ? "left" : "right";
    ctx.fillText(text, onLeft ? left + 4 * ratio : left + width - 4 * ratio, y > top + 18 * ratio ? y - 5 * ratio : y + 14 * ratio);
    ctx.restore();
  }
  function drawOver(u) {
    // The map lies right below the plot, and goes where that goes.
    const edges = u.bbox.left + ":" + u.bbox.width;
    if (edges !== drawn.edges) view.change("edges");
    drawn.edges = edges;
    const theme = colours.theme();
    const ratio = devicePixelRatio;
    dashed(u, DATA.floor_bytes, theme.floor, "floor " + sizeText(DATA.floor_bytes), false);
    if (DATA.capacity_bytes !== null)
      dashed(u, DATA.capacity_bytes, theme.muted, "device " + sizeText(DATA.capacity_bytes), true);
    const ctx = u.ctx;
    ctx.save();
    ctx.fillStyle = theme.oom;
    for (let i = 0; i < ooms.count; i++) {
      const at = view.state.axis === "event" ? ooms.number[i] : ooms.time_us[i];
      if (at < view.state.from || at > view.state.to) continue;
      const x = u.valToPos(at, "x", true);
      ctx.beginPath();
      ctx.moveTo(x - 5 * ratio, u.bbox.top);
      ctx.lineTo(x + 5 * ratio, u.bbox.top);
      ctx.lineTo(x, u.bbox.top + 9 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }
  function labelOf(x) {
    return view.state.axis === "event" ? "event " + countText(x) : timeText(x);
  }
  function options(width) {
    const theme = colours.theme();
    const bytes = (u, value) => (value === null || value === undefined ? "\u2013" : sizeText(value));
    const stepped = uPlot.paths.stepped({ align: 1 });
    const axis = { stroke: theme.muted, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line, width: 1 }, font: "11px system-ui, sans-serif" };
    let most = DATA.sum.peak_reserved_bytes;
    for (let i = 0; i < points.count; i++) most = Math.max(most, points.live[i]);
    most = Math.max(most, DATA.floor_bytes);
    // A device that is far larger would leave no room for the rest.
    if (DATA.capacity_bytes !== null && DATA.capacity_bytes < 1.6 * most) most = Math.max(most, DATA.capacity_bytes);
    const powers = [];
    for (let power = 0; power <= 52; power++) powers.push(2 ** power);
    return {
      width,
      height: height(),
      pxAlign: 0,
      legend: { live: true, markers: { width: 0, fill: (u, i) => [null, theme.reserved, theme.live, theme.free][i] } },
      cursor: {
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
      },
      scales: { x: { time: false, range: () => [view.state.from, view.state.to] }, y: { range: () => [0, most * 1.08] } },
      axes: [
        { ...axis, values: (u, splits) => splits.map((x) => (view.state.axis === "event" ? countText(x) : timeText(x))), space: 80 },
        { ...axis, size: 74, incrs: powers, values: (u, splits) => splits.map((y) => sizeText(y, 1).replace(".0 ", " ")) },
      ],
      series: [
        { label: "at", value: (u, value) => labelOf(value ?? view.placeOfMoment()) },
        { label: "reserved", stroke: theme.reserved, fill: theme["reserved-fill"], width: 1.5, paths: stepped, value: bytes, points: { show: false } },
        { label: "live", stroke: theme.live, fill: theme["live-fill"], width: 1.5, paths: stepped, value: bytes, points: { show: false } },
        { label: "largest free", stroke: theme.free, width: 1, paths: stepped, value: bytes, show: false, points: { show: false } },
      ],
      hooks: {
        draw: [drawOver],
        setSelect: [
          (u) => {
            if (u.select.width < 3) return;
            view.show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    };
  }

  // What is shown as columns for the chart: all points of the stretch where they are few, else of every few
  // the first, the last and the extremes, so that each pixel shows what all of them would.
  function shownData(width) {
    const xs = view.state.axis === "event" ? numbers : times;
    const first = Math.max(0, countUpTo(xs, view.state.from) - 2);
    const last = Math.min(points.count, countUpTo(xs, view.state.to) + 1);
    const bucket = Math.max(1, Math.ceil((last - first) / Math.max(200, width)));
    const kept = [];
    for (let begin = first; begin < last; begin += bucket) {
      const end = Math.min(begin + bucket, last);
      if (bucket <= 6) {
        for (let i = begin; i < end; i++) kept.push(i);
        continue;
      }
      let [low, high, least, most] = [begin, begin, begin, begin];
      for (let i = begin; i < end; i++) {
        if (points.reserved[i] > points.reserved[high]) high = i;
        if (points.reserved[i] < points.reserved[low]) low = i;
        if (points.live[i] < points.live[least]) least = i;
        if (points.live[i] > points.live[most]) most = i;
      }
      for (const i of [...new Set([begin, low, high, least, most, end - 1])].sort((a, b) => a - b)) kept.push(i);
    }
    return { data: [xs, points.reserved, points.live, points.largest].map((column) => Float64Array.from(kept, (i) => column[i])) };
  }
  let shown = null;
  let line = null;
  function placeUnder(event) {
    return chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x");
  }
  function placeLine() {
    const x = chart.valToPos(view.placeOfMoment(), "x");
    line.hidden = x < 0 || x > chart.over.clientWidth;
    line.style.transform = "translateX(" + x + "px)";
    setTimeout(tellMoment);
  }
  // Without a pointer the legend tells the moment: once the chart has drawn, which clears it.
  function tellMoment() {
    if (points.count > 0 && !(chart.cursor.left >= 0)) chart.setLegend({ idx: Math.max(0, countUpTo(shown.data[0], view.placeOfMoment()) - 1) }, false);
  }
  function make() {
    const hidden = chart ? chart.series.map((series) => series.show) : null;
    if (chart) chart.destroy();
    const width = target.clientWidth;
    shown = shownData(width);
    chart = new uPlot(options(width), shown.data, target);
    if (hidden) hidden.forEach((show, i) => i > 0 && chart.setSeries(i, { show }));
    line = element("div", undefined, "moment-line");
    chart.over.append(line);
    listenToWheel(chart.over, placeUnder);
    let down = 0;
    chart.over.addEventListener("pointerdown", (event) => (down = event.clientX));
    chart.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - down) < 4) view.choose(view.eventAt(placeUnder(event)));
    });
    chart.over.addEventListener("dblclick", (event) => {
      event.stopImmediatePropagation();
      view.showAll();
    }, true);
    chart.over.addEventListener("pointerleave", () => setTimeout(tellMoment));
    drawn = { ...drawn, width, axis: view.state.axis };
    placeLine();
  }
  view.drawers.push((changed) => {
    if (!chart || changed.has("theme") || changed.has("axis") || drawn.axis !== view.state.axis) make();
    else if (changed.has("size") && target.clientWidth !== drawn.width) {
      drawn.width = target.clientWidth;
      chart.setSize({ width: drawn.width, height: height() });
      placeLine();
    } else if (changed.has("stretch")) {
      shown = shownData(drawn.width);
      chart.batch(() => {
        chart.setData(shown.data, false);
        chart.setScale("x", { min: view.state.from, max: view.state.to });
      });
      placeLine();
    } else if (changed.has("moment")) placeLine();
  });
  listenToKeys(target);
  return {
    // Where the plot begins and ends, so that the map lies right below it.
    edges: () => (chart ? { left: chart.bbox.left / devicePixelRatio, width: chart.bbox.width / devicePixelRatio } : { left: 74, width: target.clientWidth - 90 }),
  };
})();
