// Slices in focus, their neighbours, and the way from one to the next by keyboard.
// The slice that a focus means: its own iteration, or one of the steady state.
function sliceFor(focus) {
  const middle = Math.min(Math.max(D.schedule.stages - 1, 0), D.timeline.shown - 1);
  return sliceOf.get(`${focus.op} ${focus.shown ?? middle}`) || sliceOf.get(`${focus.op} -1`) || slices.find((slice) => slice.op === focus.op);
}
function neighbours(focus) {
  const mine = sliceFor(focus);
  if (!mine || mine.shown < 0) return [];
  const before = into.get(focus.op).map((edge) => ({ edge, mark: "pred", other: sliceOf.get(`${edge.src} ${mine.shown - edge.distance}`) }));
  const after = outOf.get(focus.op).map((edge) => ({ edge, mark: "succ", other: sliceOf.get(`${edge.dst} ${mine.shown + edge.distance}`) }));
  return [...before, ...after].filter((one) => one.other && one.other !== mine);
}
let marks = new Map();
let marked = null;
function markOf(slice, focus) {
  if (marked !== focus) {
    marked = focus;
    marks = new Map();
    if (focus.op) {
      for (const { other, mark } of neighbours(focus)) marks.set(other, mark);
      if (sliceFor(focus)) marks.set(sliceFor(focus), "on");
    }
  }
  return focus.barrier ? classOf(slice.op) : marks.get(slice) || "";
}

// -- from operation to operation with the keyboard ------------------------------------------------
function roleTrack(slice) {
  return tracks.find((track) => track.kind === "role" && track.name === ops.get(slice.op).role);
}
function goTo(slice) {
  if (!slice) return;
  viewport.reveal(slice.start, slice.end);
  if (!same(chosen, { op: slice.op, shown: slice.shown })) choose({ op: slice.op, shown: slice.shown });
}
function stepSlice(by) {
  const here = chosen && chosen.op ? sliceFor(chosen) : null;
  if (!here) return goTo(slices.find((slice) => slice.start >= viewport.from) || slices[0]);
  const row = roleTrack(here).slices;
  return goTo(row[row.indexOf(here) + by]);
}
function changeTrack(by) {
  const here = chosen && chosen.op ? sliceFor(chosen) : null;
  if (!here) return stepSlice(0);
  const rows = tracks.filter((track) => track.kind === "role" && track.slices.length);
  const next = rows[rows.indexOf(roleTrack(here)) + by];
  if (!next) return undefined;
  const distance = (slice) => Math.abs(slice.start - here.start);
  return goTo(next.slices.reduce((best, slice) => (distance(slice) < distance(best) ? slice : best)));
}
