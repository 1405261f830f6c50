// The panel at the side: all about the operation, buffer or barrier in focus.
function drawInspector() {
  onFocus(fillInspector);
  fillInspector(null);
}
function fillInspector(focus) {
  const place = $("#inspector");
  place.classList.toggle("idle", !focus);
  const parts = !focus ? idle() : focus.barrier ? aboutBarrier(focus.barrier) : focus.buffer ? aboutOwner(focus) : aboutOperation(focus);
  place.replaceChildren(...parts.flat(Infinity).filter((part) => part));
}
function idle() {
  const families = [...new Map(D.ops.map((op) => [op.family, op])).values()];
  return [h("p", { class: "muted" }, D.ops.length ? "Point at an operation to see what it waits for, what waits for it, its storage and its barriers. Click or press Enter to keep it." : "Select a barrier to see who uses it."),
    families.length ? h("h3", {}, "Colours") : null,
    h("div", { class: "chain" }, families.map((op) => [opButton(op.id, op.base), " "])),
    h("h3", {}, "Pictures"),
    h("p", { class: "muted" }, h("span", { class: "critical" }, "red"), ": the cycle that sets the pace"),
    h("p", { class: "muted" }, "blue outline: what comes before"), h("p", { class: "muted" }, "orange outline: what comes after")];
}

const closeButton = () => (chosen ? h("button", { type: "button", class: "close quiet", "aria-label": "Clear the selection", onclick: () => choose(chosen) }, "Clear") : null);
const facts = (rows) => h("dl", {}, rows.filter((row) => row && row[1] !== null && row[1] !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function aboutOperation(focus) {
  const op = ops.get(focus.op);
  const swatch = h("span", { class: "swatch box" });
  swatch.style.background = colour(op.id, focus.shown || 0).fill;
  swatch.style.outline = `1px solid ${colour(op.id).edge}`;
  const slice = D.timeline ? sliceFor(focus) : null;
  const body = op.phase === "body";
  const before = into.get(op.id), after = outOf.get(op.id);
  return [closeButton(), h("h2", {}, swatch, op.id),
    h("p", { class: "muted" }, `${op.kind}, issued by ${op.role}${op.unit ? `, on ${op.unit}` : ""}`, criticalOps.has(op.id) ? h("span", { class: "critical" }, "; on the critical cycle") : ""),
    h("h3", {}, "Place"),
    facts([body ? ["slot", `${number(op.slot)} of ${number(D.ii)}`] : ["where", `${op.phase} the main loop`], body ? ["stage", String(op.stage)] : null, ["start", number(op.start)],
      focus.shown !== null && focus.shown >= 0 && slice ? ["iteration", `${slice.iteration}, from ${number(realTime(slice.start))}`] : null,
      op.cycles ? ["unit busy", `${number(op.cycles)} cycles`] : null, ["role held", `${number(op.hold)} cycles`], ["result after", `${number(op.latency)} cycles`],
      before.length ? ["slack before", `${number(slackIn(op))} cycles`] : null, after.length ? ["slack after", `${number(slackOut(op))} cycles`] : null,
      op.units.length ? ["takes", op.units.map(([unit, cycles]) => `${unit} ${cycles}`).join(", ")] : null]),
    edgeList("Waits for", before, "src"), edgeList("Needed by", after, "dst"), stepList("Before it, its role", op.waits), stepList("After it, its role", op.signals), storageList(op, slice)];
}

function edgeList(title, edges, end) {
  if (!edges.length) return null;
  const rows = [...edges].sort((a, b) => a.slack - b.slack).map((edge) => h("li", {}, h("div", { class: "row" },
    h("span", {}, opButton(edge[end]), edge.distance ? h("span", { class: "carried-by mono" }, ` ${signed(edge.distance)} it`) : ""),
    h("span", { class: `cls c-${edge.class}` }, `${edge.class} ${edge.resource}`)),
  h("div", { class: "row muted" }, h("span", {}, `${number(edge.delay)} cycles, ${number(edge.bytes)} bytes`),
    h("span", { class: edge.slack <= 0 ? "critical" : null }, edge.slack < 0 ? `violated by ${number(-edge.slack)}` : edge.slack ? `slack ${number(edge.slack)}` : "no slack"))));
  return [h("h3", {}, `${title} (${edges.length})`), h("ul", {}, rows)];
}
function stepList(title, steps) {
  if (!steps.length) return null;
  return [h("h3", {}, title), h("ul", {}, steps.map((step) => h("li", {}, h("div", { class: "mono" }, step.barrier ? barrierStep(step) : step.text), step.why || step.when ? h("div", { class: "muted" }, [step.why, step.when].filter(Boolean).join("; ")) : null)))];
}
function barrierStep(step) {
  const [head, tail] = step.text.split(step.barrier);
  return [head, barrierButton(step.barrier), tail];
}
function storageList(op, slice) {
  if (!op.storage.length) return null;
  const place = (use) => {
    if (!slice) return "";
    for (const panel of D.memory) {
      const mine = panel.owners.find((owner) => owner.buffer === use.buffer && owner.allocation === use.allocation && uses(owner, op.id) && slice.start >= owner.start && slice.start <= owner.end);
      if (mine) return `${panel.space === "registers" ? "" : `${panel.title.replace(" memory", "")} at ${number(mine.from)}, `}slot ${mine.slot}`;
    }
    return "";
  };
  return [h("h3", {}, "Storage"), h("ul", {}, op.storage.map((use) => h("li", {}, h("div", { class: "row" }, h("span", { class: "mono" }, use.buffer, use.allocation !== use.buffer ? h("span", { class: "muted" }, ` in ${use.allocation}`) : ""),
    h("span", { class: "muted" }, use.reads && use.writes ? "reads, writes" : use.reads ? "reads" : "writes")),
  h("div", { class: "row muted" }, h("span", {}, `version ${use.version}, ${number(use.bytes)} bytes`), h("span", {}, place(use))))))];
}

function aboutOwner(focus) {
  const owner = focus.buffer;
  return [closeButton(), h("h2", {}, owner.buffer), h("p", { class: "muted" }, owner.tenant ? `lives in the storage of ${owner.allocation}` : `in ${owner.allocation}`),
    h("h3", {}, "Place"), facts([[focus.panel.space === "registers" ? "registers" : focus.panel.unit, `${number(owner.from)} to ${number(owner.to)}`], ["slot", String(owner.slot)],
      ["version", owner.iteration < 0 ? "of the tile" : `of iteration ${owner.iteration}`], ["owned", `from ${number(realTime(owner.start))} for ${number(owner.end - owner.start)} cycles`]]),
    h("h3", {}, "Written by"), h("div", { class: "chain" }, owner.writers.map((id) => [opButton(id), " "])),
    h("h3", {}, "Read by"), h("div", { class: "chain" }, owner.readers.map((id) => [opButton(id), " "])),
    barriersOf(owner)];
}
function barriersOf(owner) {
  const guards = D.barriers.filter((barrier) => barrier.allocations.includes(owner.allocation));
  return guards.length ? [h("h3", {}, "Guarded by"), h("ul", {}, guards.map((barrier) => h("li", {}, barrierButton(barrier.name))))] : null;
}

function aboutBarrier(name) {
  const barrier = D.barriers.find((one) => one.name === name);
  if (!barrier) return [h("h2", {}, name)];
  const orders = D.proofs.orders.filter((order) => order.barriers.includes(name));
  return [closeButton(), h("h2", {}, name), h("p", { class: "muted" }, `${barrier.kind}, ${plural(barrier.slots, "slot")}`),
    h("h3", {}, "Each phase takes"), facts([["arrivals", number(barrier.arrivals)], barrier.bytes ? ["bytes", number(barrier.bytes)] : null, ["from", barrier.producers.join(", ")], ["to", barrier.consumers.join(", ")]]),
    h("h3", {}, "Signalled after"), h("div", { class: "chain" }, [...signalsOf.get(name)].map((id) => [opButton(id), " "])),
    h("h3", {}, "Awaited before"), h("div", { class: "chain" }, [...waitsOf.get(name)].map((id) => [opButton(id), " "])),
    h("h3", {}, "Is there because"), h("ul", {}, barrier.protects.map((text) => h("li", {}, protectText(text)))),
    h("p", {}, h("button", { type: "button", onclick: () => showOrdersOf(name) }, `Show the ${plural(orders.length, "order")} that it proves`))];
}
