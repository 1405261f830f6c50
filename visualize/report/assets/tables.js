// Tables: what would help, barriers, orders with their proofs, role programs, operations.
function table(columns, rows, label) {
  const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.num ? "num" : null }, column.name)));
  const line = (row) => h("tr", row.attributes || {}, columns.map((column, index) => h("td", { class: column.num ? "num" : null }, row.cells[index])));
  const body = h("tbody", {}, rows.map((row) => (row.follows ? follow(line(row), row.follows) : line(row))));
  return h("table", { "aria-label": label }, h("thead", {}, head), body);
}
const spaced = (nodes, gap = " ") => nodes.flatMap((node, index) => (index ? [gap, node] : [node]));

// -- what would help ------------------------------------------------------------------------------
function drawHelps() {
  const place = bodyOf("helps");
  if (!D.helps_tried) place.append(h("p", { class: "note" }, "Changes of the synchronized program were not tried: with this many operations and barriers that takes too long."));
  const rows = D.helps.map((row) => {
    const limited = row.floor && row.floor > row.cycles;
    return { cells: [row.where === "schedule" ? "II of the decided order" : "synchronized program", helpTexts(row.what),
      number(row.now), number(limited ? row.floor : row.cycles), gainBar(limited ? row.now - row.floor : row.now - row.cycles, row.now)] };
  });
  if (!rows.length) {
    const why = D.schedule && D.schedule.certificate.kind === "resource"
      ? `Nothing but a faster or less busy unit: ${D.schedule.certificate.text}.` : "No single change of a latency or a number of slots is known to help.";
    return place.append(h("p", { class: "note" }, why));
  }
  place.append(h("div", { class: "card scroll" }, table([{ name: "of" }, { name: "change" }, { name: "now", num: true }, { name: "would be", num: true }, { name: "gain", num: true }], rows, "What would help")),
    h("p", { class: "note" }, "Cycles per iteration with the latencies of the schedule. The order of operations is kept, so a new solve may gain more; changes that gain the same share a row. A slot more asks for storage that may not be there."));
  return undefined;
}
// Operations that gain the same when they are shorter share a line; other changes have one each.
function helpTexts(texts) {
  const shorter = texts.map((text) => (text.match(/^(.*?) a tenth shorter$/) || [])[1]).filter((id) => ops.has(id));
  const others = texts.filter((text) => !shorter.some((id) => text === `${id} a tenth shorter`));
  const either = shorter.length > 1 ? "any one of these a tenth shorter" : "a tenth shorter";
  return h("div", {}, shorter.length ? h("div", {}, spaced(shorter.map((id) => opButton(id))), ` ${either}`) : null, others.map((text) => h("div", {}, text)));
}
function gainBar(cycles, of) {
  const bar = h("span", { class: "gain" });
  bar.style.width = `${Math.max(1, Math.min(100, (2500 * cycles) / of))}px`;
  return h("span", {}, bar, `−${number(cycles)} (${percent(cycles / of)})`);
}

// -- barriers -------------------------------------------------------------------------------------
function drawBarriers() {
  const place = bodyOf("barriers");
  if (!D.barriers.length) return place.append(h("p", { class: "note" }, D.missing ? `No program: ${D.missing}.` : "This program needs no barriers."));
  const carried = new Map(D.barriers.map((barrier) => [barrier.name, 0]));
  for (const order of D.proofs.orders) for (const name of order.barriers) carried.set(name, (carried.get(name) || 0) + 1);
  const early = D.barriers.some((barrier) => barrier.skipped.length);
  const rows = D.barriers.map((barrier) => ({
    follows: `barrier ${barrier.name}`,
    cells: [barrierButton(barrier.name), barrier.slots, barrier.arrivals, barrier.bytes ? number(barrier.bytes) : "–",
      `${barrier.producers.join(", ")} → ${barrier.consumers.join(", ")}`, reasons(barrier.protects),
      h("button", { type: "button", class: "plain", onclick: () => showOrdersOf(barrier.name) }, plural(carried.get(barrier.name), "order")),
      ...(early ? [barrier.skipped.join(", ") || "–"] : [])],
  }));
  place.append(h("div", { class: "card tall" }, table([{ name: "barrier" }, { name: "slots", num: true }, { name: "arrivals", num: true }, { name: "bytes", num: true }, { name: "from → to" }, { name: "is there because" }, { name: "proves", num: true }, ...(early ? [{ name: "complete from the start" }] : [])], rows, "Barriers")),
    h("p", { class: "note" }, `${plural(D.removals, "order")} between roles or in a queue need no barrier of their own; the table of orders says what gives them instead. Select a barrier to see who signals (blue) and who waits (orange) in every picture.`));
  return undefined;
}
// The first few reasons; the rest can be unfolded.
function reasons(texts) {
  const lines = (some) => some.map((text) => h("div", {}, protectText(text)));
  if (texts.length < 6) return h("div", {}, lines(texts));
  return h("div", {}, lines(texts.slice(0, 3)), h("details", {}, h("summary", {}, `${texts.length - 3} more`), lines(texts.slice(3))));
}
function protectText(text) {
  const match = text.match(/^(\S+) (uses|writes over) (.+) after (\S+)$/);
  return match ? h("span", {}, opButton(match[1]), ` ${match[2]} `, h("span", { class: "mono" }, match[3]), " after ", opButton(match[4])) : text;
}

// -- orders and proofs ----------------------------------------------------------------------------
const PAGE = 60;
const filter = { text: "", kind: "hand-off", barrier: "", limit: PAGE };
function drawProofs() {
  const place = bodyOf("proofs");
  if (!D.proofs) return place.append(h("p", { class: "note" }, D.missing ? `No program: ${D.missing}.` : "No program."));
  for (const finding of D.proofs.findings) place.append(h("p", { class: "critical" }, `${finding.claim}: ${finding.text}`));
  const kinds = { all: "all orders", "hand-off": "through a barrier", engine: "by an engine alone", role: "by the order of one role" };
  const holder = h("div", { class: "card tall" });
  const more = h("div", { class: "tools" });
  const update = (change) => {
    Object.assign(filter, { limit: PAGE }, change);
    fillOrders(holder, more, update);
  };
  drawProofs.update = update;
  place.append(h("div", { class: "tools" },
    h("input", { type: "search", id: "order-text", placeholder: "operation or buffer", "aria-label": "Filter by operation or buffer", oninput: (event) => update({ text: event.target.value.trim().toLowerCase() }) }),
    h("select", { id: "order-kind", "aria-label": "What orders them", onchange: (event) => update({ kind: event.target.value }) }, Object.entries(kinds).map(([value, text]) => h("option", { value, selected: value === filter.kind }, text))),
    h("span", { id: "order-barrier" }), h("span", { id: "order-count", class: "push" })), holder, more);
  update({});
  return undefined;
}
function showOrdersOf(barrier) {
  finish();
  chosen = null;
  choose({ barrier });
  $("#order-kind").value = "all";
  drawProofs.update({ barrier, kind: "all" });
  $("#proofs").scrollIntoView();
}
function orderKind(order) {
  return order.trivial ? "role" : order.barriers.length ? "hand-off" : "engine";
}
function fillOrders(holder, more, update) {
  const found = D.proofs.orders.filter((order) => (filter.kind === "all" || orderKind(order) === filter.kind) && (!filter.barrier || order.barriers.includes(filter.barrier)) &&
    (!filter.text || `${order.before} ${order.after} ${order.from} ${order.to} ${order.allocation}`.toLowerCase().includes(filter.text)));
  const rows = found.slice(0, filter.limit).map((order) => ({ cells: [
    h("span", {}, opButton(order.before), order.hazard === "WAR" ? " reads " : " writes ", h("span", { class: "mono" }, order.from)),
    h("span", {}, opButton(order.after), order.hazard === "RAW" ? " reads " : " writes ", h("span", { class: "mono" }, order.to)),
    order.hazard, order.cases.map(([when], index) => [index ? h("br", {}) : null, when]), proofCell(order)] }));
  holder.replaceChildren(table([{ name: "this is complete" }, { name: "before this begins" }, { name: "hazard" }, { name: "how much later" }, { name: "because" }], rows, "Orders and their proofs"));
  $("#order-count").textContent = `${number(found.length)} of ${plural(D.proofs.orders.length, "order")}`;
  $("#order-barrier").replaceChildren(...(filter.barrier ? [h("span", {}, "through ", h("span", { class: "mono" }, filter.barrier), " ", h("button", { type: "button", onclick: () => update({ barrier: "" }) }, "all barriers"))] : []));
  more.replaceChildren(...(found.length > filter.limit ? [h("button", { type: "button", onclick: () => { filter.limit = Infinity; fillOrders(holder, more, update); } }, `Show all ${number(found.length)}`)] : []));
  if (focused()) notify();
}
// What orders the two in short; the button shows the whole path of each case.
function proofCell(order) {
  if (order.cases.some(([, path]) => path < 0)) return h("span", { class: "critical" }, "nothing orders them");
  const short = order.barriers.length ? spaced(order.barriers.map(barrierButton)) : [h("span", { class: "muted" }, order.trivial ? "the order of one role" : "an engine works in order")];
  const place = h("div", { hidden: true });
  const button = h("button", { type: "button", class: "plain", "aria-expanded": "false", onclick: () => {
    if (!place.childElementCount) place.append(...order.cases.flatMap(([when, path]) => pathList(when, path)));
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    button.textContent = place.hidden ? "path" : "hide path";
  } }, "path");
  return h("div", {}, short, " ", button, place);
}
function pathList(when, path) {
  const words = D.proofs.words;
  return [h("div", { class: "case" }, when), h("ol", { class: "path", "aria-label": when }, D.proofs.paths[path].map(([event, why]) => h("li", {}, words[event], " ", h("span", {}, words[why]))))];
}

// -- role programs --------------------------------------------------------------------------------
function drawRoles() {
  const place = bodyOf("roles");
  if (!D.roles.some((role) => role.steps.length)) return place.append(h("p", { class: "note" }, D.missing ? `No program: ${D.missing}.` : "No program."));
  hoverable(place);
  place.append(h("p", { class: "note" }, "What the warps of each role execute for a tile, in order. i−1: the step belongs to the iteration before. c counts iterations over all tiles, t counts tiles; slot = number mod slots, phase = number div slots."),
    h("div", { class: "columns" }, D.roles.map((role) => h("div", { class: "card program" }, h("strong", {}, role.name), h("span", { class: "muted" }, ` ${plural(role.warps, "warp")}, ${role.registers} registers`),
      role.steps.map((section) => [h("h3", {}, section.title), h("ol", {}, section.steps.map(stepLine))])))));
  return undefined;
}
function stepLine(step) {
  const when = [step.shift ? `i−${step.shift}` : "", step.when ? step.when.replace(" iteration", "") : ""].filter(Boolean).join(" ");
  const run = step.operation;
  const line = h("li", { class: step.do, title: step.why || null, "data-hover": run }, h("i", {}, when), h("span", {}, run || step.text));
  if (step.barrier) follow(line, `barrier ${step.barrier}`);
  return run ? follow(line, `op ${run}`) : line;
}

// -- operations -----------------------------------------------------------------------------------
const slackIn = (op) => Math.min(...into.get(op.id).map((edge) => edge.slack));
const slackOut = (op) => Math.min(...outOf.get(op.id).map((edge) => edge.slack));
const finite = (value) => (Number.isFinite(value) ? number(value) : "–");
const OP_COLUMNS = [["operation", (op) => op.id], ["kind", (op) => op.kind], ["unit", (op) => op.unit], ["role", (op) => op.role], ["where", (op) => (op.phase === "body" ? "main loop" : op.phase)],
  ["start", (op) => op.start], ["stage", (op) => (op.phase === "body" ? op.stage : -1)], ["slot", (op) => (op.phase === "body" ? op.slot : -1)], ["on unit", (op) => op.cycles], ["hold", (op) => op.hold], ["latency", (op) => op.latency], ["slack before", slackIn], ["slack after", slackOut]];
let opOrder = { column: 5, down: false };
let opLimit = 80;
function drawOperations() {
  const place = bodyOf("operations");
  if (!D.ops.length) return place.append(h("p", { class: "note" }, "Needs a schedule file."));
  const holder = h("div", { class: "card tall" });
  const fill = () => {
    const key = OP_COLUMNS[opOrder.column][1];
    const sorted = [...D.ops].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (opOrder.down ? -1 : 1));
    const cell = (value, index) => (index === 0 ? opButton(value) : typeof value === "number" ? (value < 0 && (index === 6 || index === 7) ? "–" : finite(value)) : value || "–");
    const rows = sorted.slice(0, printing ? Infinity : opLimit).map((op) => ({ follows: `op ${op.id}`, attributes: { "data-hover": op.id }, cells: OP_COLUMNS.map(([, get], index) => cell(get(op), index)) }));
    const made = table(OP_COLUMNS.map(([name], index) => ({ name, num: index > 4 })), rows, "Operations");
    made.querySelectorAll("th").forEach((th, index) => {
      th.replaceChildren(h("button", { type: "button", onclick: () => { opOrder = { column: index, down: opOrder.column === index && !opOrder.down }; fill(); } }, OP_COLUMNS[index][0]));
      th.setAttribute("aria-sort", index !== opOrder.column ? "none" : opOrder.down ? "descending" : "ascending");
    });
    holder.replaceChildren(made);
    more.replaceChildren(...(opLimit < sorted.length ? [h("button", { type: "button", onclick: () => { opLimit = Infinity; fill(); } }, `Show all ${sorted.length}`)] : []));
  };
  const more = h("div", { class: "tools" });
  fill();
  if (opLimit < D.ops.length) painters.push(fill);
  place.append(holder, more, h("p", { class: "note" }, "Slack before: cycles by which the operation could start earlier as far as dependences go; slack after: later. Start times around the main loop count from its start."));
  hoverable(holder);
  return undefined;
}
