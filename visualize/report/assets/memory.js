// Memory maps: who owns which bytes, columns or registers, on the time axis of the timeline.
const PANEL_TOP = 34;

// Storage is drawn to scale as long as every allocation stays readable: small ones get a least height.
function memoryScale(panel, height) {
  const allocations = panel.allocations.length ? panel.allocations : panel.owners;
  const edges = new Set([0]);
  for (const allocation of allocations) {
    const slots = allocation.slots || 1;
    for (let slot = 0; slot <= slots; slot++) edges.add(allocation.from + ((allocation.to - allocation.from) * slot) / slots);
  }
  const cuts = [...edges].sort((a, b) => a - b);
  const taken = (from, to) => allocations.some((allocation) => allocation.from <= from && allocation.to >= to);
  const total = cuts[cuts.length - 1];
  const pieces = cuts.slice(1).map((to, index) => {
    const from = cuts[index];
    const exact = ((to - from) / total) * height;
    return { from, to, size: taken(from, to) ? Math.max(exact, 13) : Math.min(exact, 12) };
  });
  let y = 0;
  for (const piece of pieces) {
    piece.y = y;
    y += piece.size;
  }
  const at = (address) => {
    const piece = pieces.find((one) => address < one.to) || pieces[pieces.length - 1];
    return piece.y + ((address - piece.from) / (piece.to - piece.from)) * piece.size;
  };
  return { at, height: y };
}

function drawMemory() {
  const place = bodyOf("memory");
  if (!D.memory.length) return place.append(h("p", { class: "note" }, "Needs start times, which only schedule files have."));
  for (const panel of D.memory) drawPanel(place, panel);
  place.append(h("p", { class: "note" },
    "A bar is one version of a buffer: from the start of the operation that writes it to the end of the last one that reads it. Hatched bars live in the storage of another buffer. " +
    "Heights are to scale, except that small buffers are drawn tall enough to read. The number is the iteration that wrote the version."));
  return undefined;
}

function drawPanel(place, panel) {
  const wanted = panel.space === "smem" ? 230 : panel.space === "tmem" ? 200 : 110;
  const scale = memoryScale(panel, wanted);
  const card = h("div", { class: "card panel" }, h("h3", {}, panel.title, h("span", {}, `${panel.space === "registers" ? "at most " : ""}${number(panel.used)} of ${number(panel.room)} ${panel.unit}`)));
  place.append(card);
  for (const owner of panel.owners) {
    owner.y0 = PANEL_TOP + scale.at(owner.from);
    owner.y1 = PANEL_TOP + Math.max(scale.at(owner.to - 1e-6), scale.at(owner.from) + 3);
    owner.writer = owner.writers[0] || owner.readers[0];
    const cut = D.timeline.cut;
    owner.shade = cut && owner.iteration >= cut.first ? owner.iteration - cut.iterations : Math.max(owner.iteration, 0);
    if (owner.iteration >= 0) owner.iteration = realIteration(owner.shade, owner.start);
  }
  panel.owners.sort((a, b) => a.start - b.start || a.tenant - b.tenant);
  const chart = new Chart(card, `${panel.title} over time: ${plural(panel.owners.length, "owner")}`, scale.height + PANEL_TOP + 8,
    (context, self) => paintPanel(context, self, panel, scale), (x, y) => findOwner(x, y, chart, panel));
  onFocus(() => chart.request());
  painters.push(() => chart.request());
}

const uses = (owner, id) => owner.writers.includes(id) || owner.readers.includes(id);
function inFocus(owner) {
  const focus = focused();
  if (!focus) return null;
  if (focus.buffer || !focus.op || !uses(owner, focus.op)) return focus.buffer === owner;
  const slice = sliceFor(focus);
  return slice.start <= owner.end && slice.end >= owner.start;
}

function paintPanel(context, chart, panel, scale) {
  drawAxis(context, chart, 16, chart.height - 6);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, chart.room + 10, chart.height);
  context.clip();
  context.font = `11px ${palette.mono}`;
  context.textBaseline = "middle";
  for (const owner of panel.owners) {
    if (owner.end < viewport.from || owner.start > viewport.to) continue;
    paintOwner(context, chart, owner);
  }
  drawCut(context, chart);
  context.restore();
  drawStores(context, chart, panel, scale);
}

function paintOwner(context, chart, owner) {
  const x0 = chart.x(owner.start), x1 = chart.x(owner.end);
  const paint = colour(owner.writer, owner.shade);
  const lit = inFocus(owner);
  context.globalAlpha = lit === false ? 0.3 : 1;
  drawBar(context, x0, x1, owner.y0, owner.y1 - owner.y0 - 1, paint);
  if (owner.tenant) hatch(context, Math.max(x0, GUTTER), Math.min(x1, chart.width), owner.y0, owner.y1 - 1, paint.edge);
  const text = owner.iteration < 0 ? owner.buffer : `${owner.buffer} ·${owner.iteration}`;
  if (owner.y1 - owner.y0 > 9) drawLabel(context, text, x0, x1, owner.y0, owner.y1 - owner.y0 - 1, paint.ink);
  if (lit) {
    context.strokeStyle = palette.ink;
    context.lineWidth = 2;
    context.strokeRect(x0, owner.y0, Math.max(x1 - x0, 2), owner.y1 - owner.y0 - 1);
  }
  context.globalAlpha = 1;
}

function hatch(context, x0, x1, y0, y1, stroke) {
  if (x1 <= x0) return;
  context.save();
  context.beginPath();
  context.rect(x0, y0, x1 - x0, y1 - y0);
  context.clip();
  context.strokeStyle = stroke;
  context.globalAlpha *= 0.55;
  context.lineWidth = 1;
  context.beginPath();
  const tall = y1 - y0;
  for (let x = x0 - tall - (x0 % 8); x < x1; x += 8) {
    context.moveTo(x, y1);
    context.lineTo(x + tall, y0);
  }
  context.stroke();
  context.restore();
}

function drawStores(context, chart, panel, scale) {
  context.fillStyle = palette.surface;
  context.fillRect(0, 0, GUTTER, chart.height);
  context.textBaseline = "middle";
  for (const allocation of panel.allocations) {
    const y0 = PANEL_TOP + scale.at(allocation.from), y1 = PANEL_TOP + scale.at(allocation.to - 1e-6);
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    for (let slot = 0; slot < allocation.slots; slot++) {
      const y = Math.round(PANEL_TOP + scale.at(allocation.from + ((allocation.to - allocation.from) * slot) / allocation.slots)) - 0.5;
      context.beginPath();
      context.moveTo(slot ? GUTTER - 6 : 8, y);
      context.lineTo(slot ? GUTTER : chart.width - 10, y);
      context.stroke();
    }
    context.font = `11px ${palette.mono}`;
    context.fillStyle = palette.ink;
    const label = allocation.name.length > 12 ? `${allocation.name.slice(0, 11)}…` : allocation.name;
    if (y1 - y0 > 26) {
      context.fillText(label, 12, y0 + 9);
      context.fillStyle = palette.muted;
      const where = panel.space === "registers" ? `${number(allocation.to - allocation.from)} regs` : `at ${number(allocation.from)}`;
      context.fillText(allocation.slots > 1 ? `${where} ×${allocation.slots}` : where, 12, y0 + 22);
    } else if (y1 - y0 > 9) context.fillText(label, 12, (y0 + y1) / 2);
  }
}

function findOwner(x, y, chart, panel) {
  if (x < GUTTER) return null;
  const time = chart.time(x);
  const hits = panel.owners.filter((owner) => time >= owner.start && time <= owner.end && y >= owner.y0 && y <= owner.y1);
  const owner = hits[hits.length - 1];
  return owner ? { op: owner.writer, shown: null, buffer: owner, panel } : null;
}
