(() => {
  const place = document.querySelector("#matrix");
  const panel = document.querySelector("#chosen");
  const form = document.querySelector("#search");
  if (!place || !panel || !form) return;
  const cell = Number(place.dataset.cell);
  const hex = (partition) => "0x" + partition.toString(16).padStart(4, "0");
  const pairs = (text) => new Map(text.split(" ").filter(Boolean).map((part) => {
    const [partition, ...rest] = part.split(":");
    return [Number(partition), rest];
  }));
  const columns = [...document.querySelectorAll("#columns tbody tr")].map((line, index) => ({
    line,
    index,
    number: index + 1,
    count: Number(line.dataset.count),
    guid: line.dataset.guid,
    unknown: "unknown" in line.dataset,
    kinds: pairs(line.dataset.kinds),
    traffic: new Map([...pairs(line.dataset.traffic)].map(([partition, bits]) => [partition, bits.map(Number)])),
    names: [...line.querySelectorAll(".ports")].map((word) => word.textContent).join(", "),
    text: line.textContent.toLowerCase(),
  }));
  const rows = [...document.querySelectorAll("#rows tbody tr")].map((line, index) => ({
    line,
    index,
    partition: Number(line.dataset.partition),
    title: line.cells[0].textContent,
    text: line.textContent.toLowerCase(),
  }));
  const bands = [...place.querySelectorAll(".band svg")];
  const ports = (count) => `${count.toLocaleString("en")} port${count === 1 ? "" : "s"}`;
  const make = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // Packets of a port leave in some forms of a P_Key and arrive in some: the same reckoning as ibkeys.reach.
  // From place to place, switch ports between switches may stop them: on which routes, ibkeys why tells.
  const ways = (one, other) => {
    const found = {both: [], to: [], by: [], open: []};
    for (const [partition, [leaves, arrives, place]] of one.traffic) {
      const theirs = other.traffic.get(partition);
      if (!theirs) continue;
      const there = leaves & theirs[1];
      const back = theirs[0] & arrives;
      if ((there || back) && place && theirs[2] && place !== theirs[2]) found.open.push(partition);
      else if (there && back) found.both.push(partition);
      else if (there) found.to.push(partition);
      else if (back) found.by.push(partition);
    }
    return found;
  };
  const verdict = (one, other) => {
    if (one.unknown || other.unknown) return ["not known: what decides was not read", []];
    const found = ways(one, other);
    if (found.both.length) return ["can talk", found.both];
    if (found.open.length) return ["not known here: switch ports between switches stop some packets; ibkeys why tells", found.open];
    if (found.to.length && found.by.length) return ["packets get each way in another partition: no answer comes back", [...found.to, ...found.by]];
    if (found.to.length) return ["only sends to it, one way", found.to];
    if (found.by.length) return ["only gets packets from it, one way", found.by];
    const shared = [...one.kinds.keys()].filter((partition) => other.kinds.has(partition));
    return [shared.length ? "cannot talk, though in one partition" : "cannot talk: no partition in common", shared];
  };
  const why = (one, other, partitions) => partitions.map((partition) => {
    const held = (column) => (column.kinds.get(partition) || ["not a member"])[0];
    return `${hex(partition)} (${held(one)} and ${held(other)})`;
  }).join(", ");

  const head = (column) => `Column ${column.number}: ${ports(column.count)}`;
  const button = (column) => {
    const made = make("button", head(column), "link");
    made.type = "button";
    made.addEventListener("click", () => show(column.index, null));
    return made;
  };
  const table = (titles, lines) => {
    const made = make("table", "", "stack small");
    const top = made.createTHead().insertRow();
    for (const title of titles) top.append(make("th", title));
    const body = made.createTBody();
    for (const line of lines) {
      const row = body.insertRow();
      for (const [at, part] of line.entries()) {
        const each = row.insertCell();
        each.dataset.title = titles[at];
        each.append(part);
      }
    }
    return made;
  };
  const pair = (one, other) => {
    const [said, partitions] = verdict(one, other);
    return [button(other), other.names, said, why(one, other, partitions)];
  };
  const aboutColumn = (column) => {
    const members = make("p", column.names);
    const list = column.line.querySelector(".each");
    const talks = columns.filter((other) => {
      const found = column.unknown || other.unknown ? null : ways(column, other);
      return !found || found.both.length || found.open.length || found.to.length || found.by.length
        || (other !== column && [...column.kinds.keys()].some((partition) => other.kinds.has(partition)));
    });
    const alone = columns.length - talks.length;
    const parts = [make("h2", head(column)), members];
    if (list) {
      const each = list.cloneNode(true);
      each.open = false;
      parts.push(each);
    }
    parts.push(make("p", "P_Keys: " + column.line.querySelector(".held").textContent));
    parts.push(make("h3", "Who its ports can talk to, and why"));
    parts.push(table(["Column", "Ports", "They", "By partition"], talks.map((other) => pair(column, other))));
    if (alone) parts.push(make("p", `With ${alone.toLocaleString("en")} other column${alone === 1 ? "" : "s"} it has no partition in common.`, "muted"));
    const other = talks.find((each) => each !== column) || column;
    parts.push(make("p", "The proof for two ports, with each switch port that checks:", "small muted"), make("code", `ibkeys why ${column.guid} ${other.guid}`));
    return parts;
  };
  const aboutRow = (row) => {
    const lines = columns.filter((column) => column.kinds.has(row.partition))
      .map((column) => [button(column), column.names, column.kinds.get(row.partition)[0]]);
    const onMap = boxes.length ? [make("p", "On the map below, what is not in it is pale.", "small muted")] : [];
    return [make("h2", "Partition " + row.title), ...onMap, table(["Column", "Ports", "Members"], lines)];
  };
  const mark = (svg, box) => {
    const made = document.createElementNS(svg.namespaceURI, "rect");
    for (const [name, value] of Object.entries(box)) made.setAttribute(name, value);
    made.setAttribute("class", "mark");
    svg.append(made);
  };
  const markColumn = (index) => {
    for (const svg of bands) {
      const first = Number(svg.dataset.first);
      const at = index - first;
      if (at >= 0 && at * cell < svg.viewBox.baseVal.width - cell / 2) {
        mark(svg, {x: at * cell, y: 1, width: cell, height: svg.viewBox.baseVal.height - 2});
      }
    }
  };
  const markRow = (index) => {
    for (const svg of place.querySelectorAll("svg")) {
      const top = Number(bands[0].dataset.top);
      mark(svg, {x: 0, y: top + index * cell, width: svg.viewBox.baseVal.width, height: cell});
    }
  };
  const boxes = [...document.querySelectorAll(".maps .box")];
  const markMap = (partition) => {
    const classes = [...document.querySelectorAll(".meaning.partition li")]
      .filter((each) => each.dataset.partitions.split(" ").includes(String(partition))).map((each) => each.dataset.class);
    for (const box of boxes) box.classList.toggle("off", !classes.some((name) => box.classList.contains(name)));
  };
  const unmark = () => {
    place.querySelectorAll(".mark").forEach((each) => each.remove());
    for (const box of boxes) box.classList.remove("off");
  };
  // The matrix is wider and higher than its window: what is marked comes into it. The page itself stays where it is.
  const reveal = (column, row) => {
    const frame = place.getBoundingClientRect();
    const band = bands.find((each) => column >= Number(each.dataset.first) && column < Number(each.dataset.first) + each.viewBox.baseVal.width / cell) || bands[0];
    const drawn = band.getBoundingClientRect();
    const scale = drawn.width / band.viewBox.baseVal.width;
    const labels = place.querySelector(".labels").getBoundingClientRect().width;
    const left = drawn.left - frame.left + (column - Number(band.dataset.first)) * cell * scale;
    const top = drawn.top - frame.top + (Number(band.dataset.top) + row * cell) * scale;
    if (column !== null && (left < labels || left + cell > place.clientWidth)) place.scrollLeft += left - (labels + place.clientWidth) / 2;
    if (row !== null && (top < 0 || top + cell > place.clientHeight)) place.scrollTop += top - place.clientHeight / 2;
  };
  const show = (column, row) => {
    unmark();
    const parts = [];
    if (column !== null && columns[column]) {
      markColumn(column);
      parts.push(...aboutColumn(columns[column]));
    }
    if (row !== null && rows[row]) {
      markRow(row);
      markMap(rows[row].partition);
      parts.push(...aboutRow(rows[row]));
    }
    const close = make("button", "close", "link close");
    close.type = "button";
    close.addEventListener("click", () => {
      panel.hidden = true;
      unmark();
    });
    panel.replaceChildren(close, ...parts);
    panel.hidden = !parts.length;
  };
  place.addEventListener("click", (event) => {
    const svg = event.target.closest("svg");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const row = Math.floor(((event.clientY - box.top) * scale - Number(bands[0].dataset.top)) / cell);
    const at = "first" in svg.dataset ? Number(svg.dataset.first) + Math.floor((event.clientX - box.left) * scale / cell) : null;
    if (row >= rows.length || (at === null && row < 0)) return;
    show(at, row < 0 ? null : row);
  });
  const openable = (lines, open) => {
    for (const [at, each] of lines.entries()) {
      each.line.cells[0].tabIndex = 0;
      each.line.cells[0].classList.add("opens");
      const act = () => {
        open(at);
        panel.scrollIntoView({block: "nearest"});
      };
      each.line.cells[0].addEventListener("click", act);
      each.line.cells[0].addEventListener("keydown", (event) => {
        if (event.key === "Enter") act();
      });
    }
  };
  openable(columns, (at) => show(at, null));
  openable(rows, (at) => show(null, at));
  const search = () => {
    const text = form.elements.text.value.trim().toLowerCase();
    unmark();
    for (const each of [...columns, ...rows]) each.line.hidden = Boolean(text) && !each.text.includes(text);
    for (const list of document.querySelectorAll("#columns .each")) list.open = Boolean(text) && list.textContent.toLowerCase().includes(text) && list.textContent.length < 20000;
    if (!text) {
      form.elements.shown.value = "";
      return [];
    }
    const found = columns.filter((each) => !each.line.hidden);
    const foundRows = rows.filter((each) => !each.line.hidden);
    for (const each of found) markColumn(each.index);
    for (const each of foundRows) markRow(each.index);
    if (found.length || foundRows.length) reveal(found.length ? found[0].index : null, found.length ? null : foundRows[0].index);
    form.elements.shown.value = `${found.length} of ${columns.length} columns, ${foundRows.length} of ${rows.length} partitions. Enter shows the first.`;
    return [found, foundRows];
  };
  form.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [found = [], foundRows = []] = search();
    if (!found.length && !foundRows.length) return;
    show(found.length ? found[0].index : null, found.length ? null : foundRows[0].index);
    panel.scrollIntoView({block: "nearest"});
  });
  form.hidden = false;
  document.querySelector(".hint").hidden = false;
})();
