// Colours of blocks, and those of the page as the style sheet has them, light or dark.
const RAMP = ["#5b4b9e", "#4368b8", "#2f86b5", "#26a093", "#5fb36a", "#a5bf4a", "#e3b93c", "#ee9338", "#e0653f", "#c63d5b"];
const STREAMS = ["#4368b8", "#e3913c", "#26a093", "#c63d5b", "#8f6bbd", "#87a93c", "#b07a5a", "#c76aa6"];

const colours = (function () {
  const ofBlock = new Uint8Array(blocks.count);
  const order = new Uint32Array(blocks.count);
  let theme = {};
  let by = "size";
  let least = 0;
  let most = 1;

  function measure(i) {
    if (by === "stream") return blocks.stream[i];
    if (by === "size") return Math.log2(Math.max(1, blocks.bytes[i]));
    const to = blocks.to[i] === 0 ? DATA.events + 1 : blocks.to[i];
    return Math.log2(Math.max(1, to - blocks.from[i]));
  }
  function useRule(rule) {
    by = rule;
    least = Infinity;
    most = -Infinity;
    for (let i = 0; i < blocks.count; i++) {
      const value = measure(i);
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    const span = Math.max(most - least, 1e-9);
    const counts = new Uint32Array(RAMP.length + 1);
    for (let i = 0; i < blocks.count; i++) {
      ofBlock[i] =
        by === "stream" ? blocks.stream[i] % STREAMS.length
        : Math.min(RAMP.length - 1, Math.floor(((measure(i) - least) / span) * RAMP.length));
      counts[ofBlock[i] + 1]++;
    }
    // Blocks of one colour follow each other: fewer changes of colour while drawing.
    for (let c = 0; c < RAMP.length; c++) counts[c + 1] += counts[c];
    for (let i = 0; i < blocks.count; i++) order[counts[ofBlock[i]]++] = i;
  }
  function readTheme() {
    const style = getComputedStyle(document.documentElement);
    theme = {};
    for (const name of ["ink", "muted", "line", "card", "reserved", "reserved-fill", "live", "live-fill", "free", "floor", "oom", "held", "never", "lost", "moment"])
      theme[name] = style.getPropertyValue("--" + name).trim();
  }
  function palette() {
    return by === "stream" ? STREAMS : RAMP;
  }
  function describe() {
    const place = find("colour-key");
    place.textContent = "";
    if (blocks.count === 0) return;
    if (by === "stream") {
      const seen = new Set(blocks.stream);
      for (const stream of [...seen].sort((a, b) => a - b).slice(0, STREAMS.length)) {
        const swatch = element("i");
        swatch.style.background = STREAMS[stream % STREAMS.length];
        place.append(swatch, element("span", "stream " + stream));
      }
      return;
    }
    const ramp = element("i", undefined, "ramp");
    ramp.style.background = "linear-gradient(90deg," + RAMP.join(",") + ")";
    const text = (value) => (by === "size" ? sizeText(2 ** value, 0) : plural(2 ** value, "event", "events"));
    place.append(element("span", text(least)), ramp, element("span", text(most)));
    if (by === "lifetime") place.append(element("span", "from allocation to free", "muted"));
  }
  useRule("size");
  readTheme();
  return {
    ofBlock, order, palette, readTheme, describe,
    theme: () => theme,
    useRule(rule) {
      useRule(rule);
      describe();
      view.change("colours");
    },
  };
})();
