// Puts the page together.
function redraw() {
  for (const paint of painters) paint();
  notify();
}
function drawFoot() {
  const plan = D.schedule;
  const parts = ["All cycles are those of the machine model, not measured ones."];
  if (plan) {
    parts.push(`Spec ${plan.spec} (${plan.spec_sha256.slice(0, 12)}), machine model ${plan.machine_sha256.slice(0, 12)}, schedgen ${plan.schedgen}.`);
    parts.push(`Parameters: ${Object.entries(plan.parameters).map(([name, value]) => `${name}=${value}`).join(", ")}.`);
  }
  $("#foot").append(...parts.map((part) => h("p", {}, part)));
}

applyTheme();
systemDark.addEventListener("change", () => { applyTheme(); redraw(); });
// Paper is white: pictures are drawn once more in light colours, whole and finer.
let shownBefore = null;
addEventListener("beforeprint", () => {
  finish();
  shownBefore = [viewport.from, viewport.to, chosen];
  chosen = pointed = null;
  printing = true;
  root.dataset.theme = "light";
  readPalette();
  viewport.fit();
  redraw();
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  for (const follower of viewport.followers) follower.paint();
});
addEventListener("afterprint", () => {
  printing = false;
  applyTheme();
  viewport.show(shownBefore[0], shownBefore[1]);
  chosen = shownBefore[2];
  redraw();
});

for (const draw of [drawHeader, drawInspector, drawFigures, drawWhy, drawPeriod, drawTimeline, drawMemory, drawFoot]) draw();
document.body.dataset.ready = "true";
// What is further down follows when there is time, or at once if somebody asks for it.
const later = [drawGraph, drawHelps, drawBarriers, drawProofs, drawRoles, drawOperations];
function finish() {
  while (later.length) later.shift()();
  document.body.dataset.complete = "true";
}
function continueLater() {
  if (later.length) later.shift()();
  if (later.length) (window.requestIdleCallback || setTimeout)(continueLater, { timeout: 200 });
  else finish();
}
requestAnimationFrame(() => setTimeout(continueLater));
