// compare's document as a table: any column sorts, best and worst are marked by colour and by sign.
(function () {
  const COLUMNS = [
    ["peak_reserved_bytes", "peak reserved", sizeText],
    ["overhead", "overhead", (value) => value.toFixed(3)],
    ["smallest_device_bytes", "smallest device", sizeText],
    ["device_calls", "device calls", countText],
    ["retries", "retries", countText],
    ["ooms", "OOMs", countText],
    ["internal_worst", "internal worst", shareText],
    ["internal_mean", "internal mean", shareText],
    ["external_worst", "external worst", shareText],
    ["external_mean", "external mean", shareText],
    ["searched", "searched", countText],
  ];
  const table = find("policies");
  const compared = DATA.compare;
  if (!compared) {
    table.closest("section").hidden = true;
    return;
  }
  const rows = compared.policies;
  const columns = COLUMNS.filter(([name]) => rows.some((row) => row[name] !== undefined));
  const widest = Math.max(1, ...rows.map((row) => (row.ooms > 0 ? 0 : row.overhead || 0)));
  let sorted = { name: "", up: true };

  function cell(row, [name, , text]) {
    const value = row[name];
    const made = element("td", undefined, "number");
    if (value === undefined || value === null) {
      made.textContent = "\u2013";
      return made;
    }
    const best = (row.best || []).includes(name);
    const worst = (row.worst || []).includes(name);
    if (best) made.classList.add("best");
    if (worst) made.classList.add("worst");
    made.textContent = (best ? "* " : worst ? "! " : "") + text(value);
    if (name === "overhead") {
      const bar = element("span", undefined, "bar");
      bar.style.width = Math.min(100, (100 * value) / widest) + "%";
      made.append(bar);
    }
    return made;
  }
  function draw() {
    const head = element("tr");
    const name = element("th", "policy");
    name.scope = "col";
    head.append(name);
    for (const column of columns) {
      const made = element("th");
      made.scope = "col";
      made.setAttribute("aria-sort", sorted.name !== column[0] ? "none" : sorted.up ? "ascending" : "descending");
      const button = element("button", column[1]);
      button.type = "button";
      button.addEventListener("click", () => {
        sorted = { name: column[0], up: sorted.name === column[0] ? !sorted.up : true };
        draw();
        table.tHead.querySelectorAll("button")[columns.indexOf(column)].focus();
      });
      made.append(button);
      head.append(made);
    }
    table.tHead.replaceChildren(head);
    const order = [...rows];
    if (sorted.name) {
      const rank = (row) => (row[sorted.name] === undefined || row[sorted.name] === null ? Infinity : row[sorted.name]);
      order.sort((a, b) => (rank(a) === rank(b) ? 0 : (rank(a) < rank(b) ? -1 : 1) * (sorted.up ? 1 : -1)));
    }
    table.tBodies[0].replaceChildren(floorRow(), ...order.map(policyRow));
  }
  function floorRow() {
    const row = element("tr", undefined, "floor");
    const name = element("th", "floor");
    name.scope = "row";
    row.append(name);
    for (const [column] of columns)
      row.append(element("td", column.endsWith("_bytes") ? sizeText(compared.floor_bytes) : column === "overhead" ? "1.000" : "", "number"));
    return row;
  }
  function policyRow(policy) {
    const row = element("tr");
    const name = element("th");
    name.scope = "row";
    const [first, ...knobs] = policy.policy.split(" ");
    name.append(element("span", first));
    if (knobs.length > 0) name.append(" ", element("small", knobs.join(" ")));
    if (policy.policy === DATA.policy) {
      row.className = "shown";
      name.append(" ", element("small", "(this run)", "this"));
    }
    row.append(name);
    if (policy.problem !== undefined) {
      const cell_ = element("td", policy.problem, "problem");
      cell_.colSpan = columns.length;
      row.append(cell_);
    } else {
      row.append(...columns.map((column) => cell(policy, column)));
    }
    return row;
  }
  draw();
  const device = compared.capacity_bytes === null ? "a device without limit" : "a device of " + sizeText(compared.capacity_bytes);
  find("policies-notes").textContent =
    "On " + device + ". * best, ! worst of a column, of the policies that place blocks and refuse nothing; means are weighted by " +
    compared.means_by + ". The floor is the most that was live at once: no policy can do with less.";
})();
