// The modulo reservation table: who has each unit and role in the cycles of one period.
const PERIOD = { row: 26, rate: 30, gap: 6, head: 22 };

function circleMeet(a, b) {
  return [-D.ii, 0, D.ii].some((turn) => a.begin + turn < b.end && b.begin < a.end + turn);
}
function circleLanes(blocks) {
  const lanes = [];
  for (const block of blocks.sort((a, b) => a.begin - b.begin || (a.id < b.id ? -1 : 1))) {
    let lane = lanes.findIndex((members) => !members.some((other) => circleMeet(block, other)));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push(block);
  }
  return lanes;
}
const blockOf = (id, cycles) => {
  const op = ops.get(id);
  return { id, begin: op.slot, end: op.slot + Math.max(cycles, 1), stage: op.stage };
};

function periodRows() {
  const rows = [];
  for (const load of D.loads.filter((load) => load.kind === "exclusive")) {
    rows.push({ name: load.name, note: percent(load.cycles / D.ii), lanes: circleLanes(load.parts.map(([id, cycles]) => blockOf(id, cycles))) });
  }
  for (const role of D.roles) {
    const mine = D.ops.filter((op) => op.phase === "body" && op.role === role.name).map((op) => blockOf(op.id, op.hold));
    const load = D.loads.find((one) => one.kind === "role" && one.name === role.name);
    if (mine.length) rows.push({ name: role.name, note: load ? percent(load.cycles / D.ii) : "", lanes: circleLanes(mine), role: true });
  }
  for (const load of D.loads.filter((load) => load.kind === "rate" && load.parts.length)) {
    rows.push({ name: load.name, note: percent(load.cycles / D.ii), rate: circleRate(load.parts) });
  }
  return rows;
}

// How long an operation draws on the units that it shares with others.
const drawsFor = (op) => Math.max(1, op.engine === "threads" || !op.cycles ? op.hold : op.cycles);

// Steps [cycle, rate] of a shared unit around the circle; each operation spreads its cycles evenly.
function circleRate(parts) {
  const change = new Map([[0, 0]]);
  const add = (cycle, rate) => change.set(cycle, (change.get(cycle) || 0) + rate);
  for (const [id, cycles] of parts) {
    const op = ops.get(id);
    const length = drawsFor(op);
    for (let begin = op.slot; begin < op.slot + length; ) {
      const at = begin % D.ii;
      const size = Math.min(D.ii - at, op.slot + length - begin);
      add(at, cycles / length);
      add(at + size, -cycles / length);
      begin += size;
    }
  }
  let rate = 0;
  return [...change].sort((a, b) => a[0] - b[0]).map(([cycle, by]) => [cycle, (rate += by)]);
}

function drawPeriod() {
  const holder = h("div", { class: "card" });
  if (!D.schedule) return bodyOf("period").append(h("p", { class: "note" }, "Needs start times, which only schedule files have."));
  const rows = periodRows();
  const build = () => {
    const width = Math.max(holder.clientWidth || 1000, 640);
    holder.replaceChildren(periodPicture(rows, width));
    if (focused()) notify();
  };
  bodyOf("period").append(holder, h("p", { class: "note" },
    `A number after a name says how many iterations before the newest one that instance belongs to. A bar that reaches the right edge goes on at the left. Shared units show the rate at which they are drawn on, each operation spreading its cycles evenly; the dotted line is all there is, and where they ask for more they slow each other down. A red edge marks operations of the critical cycle.`));
  let last = 0;
  new ResizeObserver(() => {
    if (Math.abs(holder.clientWidth - last) > 2) { last = holder.clientWidth; build(); }
  }).observe(holder);
  painters.push(build);
  return undefined;
}

function periodPicture(rows, width) {
  const room = width - GUTTER - 14;
  const x = (cycle) => GUTTER + (cycle / D.ii) * room;
  let y = PERIOD.head;
  const parts = [];
  rows.forEach((row, index) => {
    const kind = row.rate ? 2 : row.role ? 1 : 0;
    const before = index && (rows[index - 1].rate ? 2 : rows[index - 1].role ? 1 : 0);
    if (index && kind !== before) y += 12;
    const height = row.rate ? PERIOD.rate : row.lanes.length * PERIOD.row;
    parts.push(s("text", { x: 14, y: y + 13, "font-size": 12, fill: palette.ink }, row.name.length > 13 ? `${row.name.slice(0, 12)}…` : row.name),
      s("text", { x: 14, y: y + 25, "font-size": 10, fill: palette.muted }, row.note),
      s("rect", { x: GUTTER, y, width: room, height, fill: palette.sunken }));
    if (row.rate) parts.push(rateShape(row.rate, x, y, height));
    else row.lanes.forEach((lane, number) => lane.forEach((block) => parts.push(periodCell(block, x, y + number * PERIOD.row))));
    y += height + PERIOD.gap;
  });
  const picture = s("svg", { viewBox: `0 0 ${width} ${y + 6}`, width: "100%", class: "marked", role: "group", "aria-label": `One period of ${D.ii} cycles: units and roles. Arrow keys move between operations.` },
    periodAxis(x, y, room), parts);
  picture.addEventListener("keydown", moveBetweenCells);
  const first = $(".cell", picture);
  if (first) first.setAttribute("tabindex", 0);
  return picture;
}

function periodAxis(x, y, room) {
  const step = tickStep(D.ii, room / 100);
  const marks = [];
  for (let cycle = 0; cycle < D.ii; cycle += step) {
    marks.push(s("line", { x1: x(cycle), x2: x(cycle), y1: 6, y2: y, stroke: palette.line }));
    if (x(D.ii) - x(cycle) > 110) marks.push(s("text", { x: x(cycle) + 4, y: 14, "font-size": 10.5, fill: palette.muted }, number(cycle)));
  }
  marks.push(s("line", { x1: x(D.ii), x2: x(D.ii), y1: 6, y2: y, stroke: palette.critical, "stroke-width": 1.5 }),
    s("text", { x: x(D.ii) - 4, y: 14, "font-size": 10.5, "text-anchor": "end", fill: palette.critical }, `II ${number(D.ii)}`));
  return marks;
}

function rateShape(steps, x, y, height) {
  const most = Math.max(1, ...steps.map(([, rate]) => rate));
  const level = (rate) => y + height - (rate / most) * (height - 4);
  let path = `M${x(0)} ${y + height}`;
  steps.forEach(([cycle, rate], index) => {
    const next = index + 1 < steps.length ? steps[index + 1][0] : D.ii;
    path += `L${x(cycle).toFixed(1)} ${level(rate).toFixed(1)}L${x(Math.min(next, D.ii)).toFixed(1)} ${level(rate).toFixed(1)}`;
  });
  path += `L${x(D.ii)} ${y + height}Z`;
  return [s("path", { d: path, fill: palette.accent, "fill-opacity": 0.28, stroke: palette.accent, "stroke-width": 0.8 }),
    s("line", { x1: x(0), x2: x(D.ii), y1: level(1), y2: level(1), stroke: palette.muted, "stroke-dasharray": "1 3" })];
}

function periodCell(block, x, y) {
  const { fill, edge, ink } = colour(block.id, -block.stage);
  const name = block.stage ? `${block.id} −${block.stage}` : block.id;
  const op = ops.get(block.id);
  const cell = s("g", { class: "cell", "data-op": block.id, tabindex: -1, role: "button", "aria-label": sentence({ op: block.id }),
    onpointerenter: () => point({ op: block.id, shown: null }), onpointerleave: () => point(null),
    onfocus: () => point({ op: block.id, shown: null }), onblur: () => point(null), onclick: () => choose({ op: block.id, shown: null }) });
  cell.append(s("title", {}, `${name}: slot ${op.slot}, ${op.cycles ? `${op.cycles} cycles, ` : ""}hold ${op.hold}, latency ${op.latency}`));
  for (const [begin, end] of [[block.begin, Math.min(block.end, D.ii)], [0, block.end - D.ii]]) {
    if (end <= begin) continue;
    const left = x(begin), wide = Math.max(x(end) - left, 1.5);
    cell.append(s("rect", { x: left + 0.5, y: y + 0.5, width: Math.max(wide - 1, 1), height: PERIOD.row - 3, rx: 2, fill, stroke: edge, "stroke-width": 1 }));
    if (criticalOps.has(block.id)) cell.append(s("path", { d: `M${left + 1} ${y + PERIOD.row - 3.5}h${Math.max(wide - 2, 1)}`, stroke: palette.critical, "stroke-width": 2, "pointer-events": "none" }));
    const label = fitText(name, wide) || fitText(block.id, wide);
    if (label) cell.append(s("text", { x: left + 5, y: y + 15.5, "font-size": 11, fill: ink, "pointer-events": "none" }, label));
  }
  return follow(cell, `op ${block.id}`);
}

// One of the cells can be reached with Tab; arrow keys move on from it, Enter selects.
function moveBetweenCells(event) {
  const cells = [...event.currentTarget.querySelectorAll(".cell")];
  const here = cells.indexOf(document.activeElement);
  if (here < 0) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" || event.key === " ") choose({ op: cells[here].dataset.op, shown: null });
  else if (event.key === "Escape") chosen && choose(chosen);
  else if (event.key === "Home") focusCell(cells, here, 0);
  else if (step) focusCell(cells, here, (here + step + cells.length) % cells.length);
  else return;
  event.preventDefault();
}
function focusCell(cells, from, to) {
  cells[from].setAttribute("tabindex", -1);
  cells[to].setAttribute("tabindex", 0);
  cells[to].focus();
}
