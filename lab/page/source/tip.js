// The small box beside the pointer that says which block is there.
const tip = (function () {
  const box = find("tip");

  function rowsOf(i, number) {
    const to = blocks.to[i];
    const rows = [["allocation", "#" + countText(blocks.id[i])]];
    if (blocks.requested[i] !== blocks.bytes[i]) rows.push(["asked for", sizeText(blocks.requested[i])]);
    rows.push(["at", "0x" + blocks.offset[i].toString(16)]);
    rows.push(["events", countText(blocks.from[i]) + " \u2013 " + (to === 0 ? "end" : countText(to))]);
    if (number !== undefined && number >= blocks.from[i]) {
      const age = plural(number - blocks.from[i], "event", "events");
      const time = DATA.times ? ", " + timeText(timeAt(number) - blocks.from_us[i]) : "";
      rows.push(["age", age + time]);
    }
    if (DATA.times && to !== 0) rows.push(["lived", timeText(blocks.to_us[i] - blocks.from_us[i])]);
    if (blocks.stream[i] !== 0) rows.push(["stream", String(blocks.stream[i])]);
    if (to === 0) rows.push(["freed", "never"]);
    else if (blocks.lost[i] === LOST) rows.push(["freed", "but forgotten by the policy"]);
    else if (blocks.lost[i] === WAITED) rows.push(["freed", "but waited for other streams"]);
    return rows;
  }
  function place(event) {
    box.hidden = false;
    const width = box.offsetWidth;
    const height = box.offsetHeight;
    let x = event.clientX + 14;
    let y = event.clientY + 14;
    if (x + width > innerWidth - 6) x = Math.max(6, event.clientX - width - 14);
    if (y + height > innerHeight - 6) y = Math.max(6, event.clientY - height - 14);
    box.style.left = x + "px";
    box.style.top = y + "px";
  }
  return {
    showBlock(i, number, event) {
      box.textContent = "";
      box.append(element("strong", sizeText(blocks.bytes[i]) + " (" + countText(blocks.bytes[i]) + " bytes)"));
      const list = element("dl");
      for (const [name, value] of rowsOf(i, number)) list.append(element("dt", name), element("dd", value));
      box.append(list);
      place(event);
    },
    showText(text, event) {
      box.textContent = "";
      box.append(element("span", text));
      place(event);
    },
    hide() {
      box.hidden = true;
    },
  };
})();
