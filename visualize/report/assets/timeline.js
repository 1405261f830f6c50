// The unrolled tile: what each unit and each role does, from prologue to epilogue.
const LANE = 22;
let slices = [];
const sliceOf = new Map();
let tracks = [];
let timelineChart = null;

function readSlices() {
  const cut = D.timeline.cut;
  const names = ["op", "iteration", "phase", "start", "unitEnd", "holdEnd", "end", "unitLane", "roleLane"];
  slices = D.timeline.slices.map((row) => {
    const slice = Object.fromEntries(names.map((name, index) => [name, row[index]]));
    const far = cut && slice.iteration >= cut.first ? cut.iterations : 0;
    slice.shown = slice.iteration < 0 ? -1 : slice.iteration - far;
    if (slice.shown >= 0) slice.iteration = realIteration(slice.shown, slice.start);
    sliceOf.set(`${slice.op} ${slice.shown}`, slice);
    return slice;
  });
  slices.sort((a, b) => a.start - b.start);
  const used = D.timeline.tracks.filter((track) => track.kind === "role" || track.exclusive);
  let y = 42;
  let previous = "";
  tracks = used.map((track) => {
    if (previous && previous !== track.kind) y += 12;
    previous = track.kind;
    const unit = track.kind === "unit";
    const mine = slices.filter((slice) => (unit ? ops.get(slice.op).unit : ops.get(slice.op).role) === track.name);
    const placed = { ...track, y, height: Math.max(track.lanes, 1) * LANE, end: unit ? "unitEnd" : "holdEnd", lane: unit ? "unitLane" : "roleLane", slices: mine, unit };
    placed.longest = mine.reduce((most, slice) => Math.max(most, slice[placed.end] - slice.start), 0);
    y += placed.height + 5;
    return placed;
  });
  for (const load of D.loads.filter((one) => one.kind === "rate" && one.parts.length)) {
    if (previous !== "rate") y += 10;
    previous = "rate";
    tracks.push({ name: load.name, kind: "rate", y, height: 24, steps: tileRate(load.parts), slices: [], utilization: load.cycles / D.ii });
    y += 29;
  }
  return y + 6;
}

function tileRate(parts) {
  const cycles = new Map(parts);
  const change = new Map();
  const add = (time, rate) => change.set(time, (change.get(time) || 0) + rate);
  for (const slice of slices) {
    if (!cycles.has(slice.op)) continue;
    const length = drawsFor(ops.get(slice.op));
    add(slice.start, cycles.get(slice.op) / length);
    add(slice.start + length, -cycles.get(slice.op) / length);
  }
  let rate = 0;
  return [...change].sort((a, b) => a[0] - b[0]).map(([time, by]) => [time, (rate += by)]);
}

function drawTimeline() {
  const place = bodyOf("timeline");
  if (!D.timeline) return place.append(h("p", { class: "note" }, "Needs start times, which only schedule files have."));
  const margin = (D.timeline.end - D.timeline.begin) * 0.01;
  viewport.limits(D.timeline.begin - margin, D.timeline.end + margin);
  const height = readSlices();
  const card = h("div", { class: "card" });
  const cut = D.timeline.cut;
  const tools = zoomTools(["drag to pan; wheel zooms once the chart has the focus (", h("kbd", {}, "Ctrl"), " + wheel always); ", h("kbd", {}, "+"), " ", h("kbd", {}, "−"), " ", h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " ", h("kbd", {}, "Home"),
    "; ", h("kbd", {}, ","), " ", h("kbd", {}, "."), " next operation, ", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), " other track"]);
  place.append(tools, card, h("p", { class: "note" },
    "Bars of units last while the unit is busy, bars of roles while the role issues or computes; the thin line after a bar leads to the time at which its result is there. " +
    "Shades of a colour tell iterations apart. " + (cut ? `${plural(cut.iterations, "iteration")} like those beside the cut are left out; the axis counts them.` : "")));
  timelineChart = new Chart(card, `Timeline of one output tile, ${plural(slices.length, "slice")}. Plus and minus zoom, left and right pan, Home shows all, comma and full stop go from operation to operation.`, height, paintTimeline, findSlice);
  timelineChart.more = {
    ",": () => stepSlice(-1), ".": () => stepSlice(1), ArrowUp: () => changeTrack(-1), ArrowDown: () => changeTrack(1),
    Enter: () => { const last = chosen; if (last) viewport.show(sliceFor(last).start - 400, sliceFor(last).end + 400); },
  };
  onFocus(() => timelineChart.request());
  painters.push(() => timelineChart.request());
  return undefined;
}

function paintTimeline(context, chart) {
  drawPhases(context, chart);
  drawAxis(context, chart, 20, chart.height);
  context.font = `11px ${palette.mono}`;
  context.textBaseline = "middle";
  const focus = focused();
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, chart.room + 10, chart.height);
  context.clip();
  for (const track of tracks) {
    if (!chart.near(track.y, track.y + track.height)) continue;
    if (track.steps) paintRate(context, chart, track);
    else paintTrack(context, chart, track, focus);
  }
  drawCut(context, chart);
  if (focus && focus.op) drawArrows(context, chart, focus);
  context.restore();
  drawTrackNames(context, chart);
}

// Prologue, steady state and epilogue are whole periods; before and after them is the rest of the tile.
function drawPhases(context, chart) {
  const fill = (D.schedule.stages - 1) * D.ii;
  const full = D.timeline.shown * D.ii;
  const bands = [["before", viewport.min, 0], ["prologue", 0, Math.min(fill, full)], ["steady state", fill, full],
    ["epilogue", Math.max(full, fill), full + fill], ["after", full + fill, viewport.max]];
  context.font = `11px ${palette.sans}`;
  context.textBaseline = "middle";
  bands.forEach(([name, from, to], index) => {
    if (to <= from) return;
    const x0 = Math.max(chart.x(from), GUTTER), x1 = Math.min(chart.x(to), chart.width - 10);
    if (x1 <= x0) return;
    context.fillStyle = palette.sunken;
    context.globalAlpha = index % 2 ? 1 : 0.35;
    context.fillRect(x0, 0, x1 - x0, chart.height);
    context.globalAlpha = 1;
    context.fillStyle = palette.muted;
    if (x1 - x0 > name.length * 6 + 8) context.fillText(name, x0 + 4, 10);
  });
}

function visible(track) {
  // Slices are in order of start; none is longer than `longest`.
  let low = 0, high = track.slices.length;
  const from = viewport.from - track.longest;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track.slices[middle].start < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

function paintTrack(context, chart, track, focus) {
  if (track.unit) paintTails(context, chart, track, focus);
  const last = new Map();
  for (let index = visible(track); index < track.slices.length; index++) {
    const slice = track.slices[index];
    if (slice.start > viewport.to) break;
    const x0 = chart.x(slice.start), x1 = chart.x(Math.max(slice[track.end], slice.start + 1));
    const y = track.y + slice[track.lane] * LANE;
    // What would cover less than half a pixel beside the bar before it is not worth drawing.
    if (x1 - (last.get(slice[track.lane]) ?? -1) < 0.5) continue;
    last.set(slice[track.lane], x1);
    const mark = focus ? markOf(slice, focus) : "";
    context.globalAlpha = focus && !mark ? 0.3 : 1;
    const paint = colour(slice.op, slice.shown);
    drawBar(context, x0, x1, y, LANE - 3, paint);
    const text = slice.iteration < 0 ? slice.op : `${slice.op} ·${slice.iteration}`;
    if (x1 - x0 > 16) drawLabel(context, fitText(text, x1 - x0) ? text : slice.op, x0, x1, y, LANE - 3, paint.ink);
    if (criticalOps.has(slice.op) && x1 - x0 > 2) {
      context.fillStyle = palette.critical;
      context.fillRect(x0, y + LANE - 5, x1 - x0, 2);
    }
    if (mark) outline(context, x0, x1, y, mark);
  }
  context.globalAlpha = 1;
}
// From the end of a bar to its result; drawn first, so that the next bar covers it.
function paintTails(context, chart, track, focus) {
  if (chart.room / (viewport.to - viewport.from) < 0.004) return;
  for (let index = visible(track); index < track.slices.length; index++) {
    const slice = track.slices[index];
    if (slice.start > viewport.to) break;
    if (slice.end <= slice[track.end]) continue;
    context.globalAlpha = focus && !markOf(slice, focus) ? 0.3 : 1;
    tail(context, chart.x(slice[track.end]), chart.x(slice.end), track.y + slice[track.lane] * LANE, colour(slice.op, slice.shown));
  }
}
function tail(context, x0, x1, y, paint) {
  context.strokeStyle = paint.edge;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x0, y + LANE / 2 - 1.5);
  context.lineTo(x1, y + LANE / 2 - 1.5);
  context.moveTo(x1 - 0.5, y + 5);
  context.lineTo(x1 - 0.5, y + LANE - 8);
  context.stroke();
}
function outline(context, x0, x1, y, mark) {
  context.strokeStyle = { on: palette.ink, pred: palette.pred, succ: palette.succ }[mark];
  context.lineWidth = 2;
  context.strokeRect(x0, y, Math.max(x1 - x0, 2), LANE - 3);
}

function middleOf(slice, chart) {
  const track = tracks.find((one) => one.kind === "role" && one.slices.includes(slice));
  return track ? track.y + slice.roleLane * LANE + (LANE - 3) / 2 : 0;
}
function drawArrows(context, chart, focus) {
  const mine = sliceFor(focus);
  for (const { edge, mark, other } of neighbours(focus)) {
    const [src, dst] = mark === "pred" ? [other, mine] : [mine, other];
    const x0 = chart.x(Math.min(src.holdEnd, src.end)), x1 = chart.x(dst.start);
    const y0 = middleOf(src), y1 = middleOf(dst);
    const bend = Math.max(14, Math.abs(x1 - x0) * 0.4);
    context.strokeStyle = edge.critical ? palette.critical : palette[edge.class];
    context.lineWidth = edge.slack === 0 ? 2 : 1.2;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 3.5);
    context.lineTo(x1 - 7, y1 + 3.5);
    context.fill();
  }
}

function paintRate(context, chart, track) {
  const most = Math.max(1, ...track.steps.map(([, rate]) => rate));
  const level = (rate) => track.y + track.height - (rate / most) * (track.height - 2);
  context.fillStyle = palette.accent;
  context.globalAlpha = 0.35;
  track.steps.forEach(([time, rate], index) => {
    const next = index + 1 < track.steps.length ? track.steps[index + 1][0] : time;
    if (next < viewport.from || time > viewport.to || rate <= 1e-9) return;
    const x0 = chart.x(time);
    context.fillRect(x0, level(rate), chart.x(next) - x0, track.y + track.height - level(rate));
  });
  context.globalAlpha = 1;
  context.strokeStyle = palette.muted;
  context.setLineDash([1, 3]);
  context.beginPath();
  context.moveTo(GUTTER, level(1));
  context.lineTo(chart.width - 10, level(1));
  context.stroke();
  context.setLineDash([]);
}

function drawCut(context, chart) {
  const cut = D.timeline.cut;
  if (!cut) return;
  const x = Math.round(chart.x(cut.at));
  context.fillStyle = palette.surface;
  context.fillRect(x - 3, 20, 6, chart.height);
  context.strokeStyle = palette.muted;
  context.setLineDash([4, 3]);
  context.strokeRect(x - 3, 18, 6, chart.height);
  context.setLineDash([]);
  const text = `${plural(cut.iterations, "iteration")} left out`;
  context.font = `11px ${palette.sans}`;
  const half = context.measureText(text).width / 2 + 6;
  context.fillStyle = palette.surface;
  context.fillRect(x - half, 1, 2 * half, 17);
  context.fillStyle = palette.ink;
  context.textAlign = "center";
  context.fillText(text, x, 10);
  context.textAlign = "left";
  context.font = `11px ${palette.mono}`;
}

function drawTrackNames(context, chart) {
  context.fillStyle = palette.surface;
  context.fillRect(0, 0, GUTTER, chart.height);
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.strokeRect(GUTTER - 0.5, -1, 0.01, chart.height + 2);
  for (const track of tracks) {
    context.font = `12px ${palette.mono}`;
    context.fillStyle = track.kind === "rate" ? palette.muted : palette.ink;
    context.fillText(track.name.length > 13 ? `${track.name.slice(0, 12)}…` : track.name, 12, track.y + Math.min(track.height / 2, 11) - 1);
  }
}

function findSlice(x, y) {
  if (x < GUTTER) return null;
  const time = timelineChart.time(x);
  const track = tracks.find((one) => y >= one.y && y < one.y + one.height);
  if (!track || track.steps) return null;
  const lane = Math.floor((y - track.y) / LANE);
  const near = (viewport.to - viewport.from) / timelineChart.room;
  let best = null;
  for (let index = visible(track); index < track.slices.length && track.slices[index].start <= time + near; index++) {
    const slice = track.slices[index];
    if (slice[track.lane] === lane && time <= Math.max(slice[track.end], slice.start) + near) best = slice;
  }
  return best && { op: best.op, shown: best.shown };
}
