// What is looked at: a stretch of the horizontal axis, a stretch of addresses, and one moment. Whoever draws
// it is told once before the next picture, however much has changed.
const view = (function () {
  const lastEvent = Math.max(2, DATA.events);
  const state = { axis: "event", from: 1, to: lastEvent, low: 0, high: squeeze.length, moment: 1 };
  const drawers = [];
  const changed = new Set();
  let asked = false;

  function whole() {
    return state.axis === "event" ? [1, lastEvent] : [0, Math.max(1, DATA.sum.span_us)];
  }
  function change(what) {
    changed.add(what);
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      const now = new Set(changed);
      changed.clear();
      for (const draw of drawers) draw(now);
    });
  }
  // The least stretch is a few events wide.
  function show(from, to) {
    const [first, last] = whole();
    const least = state.axis === "event" ? 4 : Math.max(1, (last - first) / 1e6);
    let length = Math.min(Math.max(to - from, least), last - first);
    let start = from + (to - from - length) / 2;
    start = Math.min(Math.max(start, first), last - length);
    state.from = start;
    state.to = start + length;
    change("stretch");
  }
  function showAddresses(low, high) {
    const length = Math.min(Math.max(high - low, 512), squeeze.length);
    const start = Math.min(Math.max(low + (high - low - length) / 2, 0), squeeze.length - length);
    state.low = start;
    state.high = start + length;
    change("stretch");
  }
  function zoom(factor, at) {
    const centre = at === undefined ? (state.from + state.to) / 2 : at;
    show(centre - (centre - state.from) * factor, centre + (state.to - centre) * factor);
  }
  function zoomAddresses(factor, at) {
    const centre = at === undefined ? (state.low + state.high) / 2 : at;
    showAddresses(centre - (centre - state.low) * factor, centre + (state.high - centre) * factor);
  }
  function isWhole() {
    const [first, last] = whole();
    return state.from <= first && state.to >= last;
  }
  function showAll() {
    state.low = 0;
    state.high = squeeze.length;
    show(...whole());
  }
  function choose(number) {
    state.moment = Math.min(Math.max(Math.round(number), 1), DATA.events);
    change("moment");
  }
  // Brings the moment into the stretch.
  function follow() {
    const x = placeOfMoment();
    const length = state.to - state.from;
    if (x < state.from || x > state.to) show(x - length / 2, x + length / 2);
  }
  function placeOfMoment() {
    return state.axis === "event" ? state.moment : timeAt(state.moment);
  }
  function eventAt(x) {
    if (state.axis === "event") return Math.round(x);
    return points.count > 0 ? points.number[Math.max(0, countUpTo(points.time_us, x) - 1)] : 1;
  }
  function useAxis(axis) {
    const part = isWhole() ? null : [eventAt(state.from), eventAt(state.to)];
    state.axis = axis;
    change("axis");
    if (!part) show(...whole());
    else if (axis === "event") show(...part);
    else show(timeAt(part[0]), timeAt(part[1]));
  }
  return {
    state, drawers, change, show, showAddresses, zoom, zoomAddresses, isWhole, showAll, choose, follow,
    placeOfMoment, eventAt, useAxis, whole,
  };
})();

// Wheel and keys are the same on the chart and on the map.
function listenToWheel(target, placeUnder, spotUnder) {
  target.addEventListener(
    "wheel",
    (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) && !event.shiftKey;
      if (sideways) {
        if (view.isWhole()) return;
        const step = ((view.state.to - view.state.from) * event.deltaX) / 800;
        view.show(view.state.from + step, view.state.to + step);
      } else {
        const turn = event.deltaY || event.deltaX;
        const factor = Math.exp(Math.max(-0.5, Math.min(0.5, turn / 400)));
        if (event.shiftKey && spotUnder) {
          view.zoomAddresses(factor, spotUnder(event));
        } else {
          // All is shown already: the wheel moves the page on.
          if (factor > 1 && view.isWhole()) return;
          view.zoom(factor, placeUnder(event));
        }
      }
      event.preventDefault();
    },
    { passive: false },
  );
}

function listenToKeys(target) {
  target.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const shown = view.eventAt(view.state.to) - view.eventAt(view.state.from);
    const step = event.shiftKey ? Math.max(1, Math.round(shown / 50)) : 1;
    const actions = {
      ArrowLeft: () => view.choose(view.state.moment - step),
      ArrowRight: () => view.choose(view.state.moment + step),
      Home: () => view.choose(1),
      End: () => view.choose(DATA.events),
      "+": () => view.zoom(0.7, view.placeOfMoment()),
      "=": () => view.zoom(0.7, view.placeOfMoment()),
      "-": () => view.zoom(1 / 0.7, view.placeOfMoment()),
      0: () => view.showAll(),
      PageUp: () => view.zoomAddresses(0.7),
      PageDown: () => view.zoomAddresses(1 / 0.7),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") view.follow();
    event.preventDefault();
  });
}
