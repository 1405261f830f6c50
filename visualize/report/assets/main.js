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
let before = null;
addEventListener("beforeprint", () => {
  before = [viewport.from, viewport.to, chosen];
  chosen = pointed = null;
  printing = true;
  root.dataset.theme = "light";
  readPalette();
  viewport.fit();
  redraw();
  for (const follower of viewport.followers) follower.paint();
});
addEventListener("afterprint", () => {
  printing = false;
  applyTheme();
  viewport.show(before[0], before[1]);
  chosen = before[2];
  redraw();
});

for (const draw of [drawHeader, drawFigures, drawWhy, drawPeriod, drawTimeline, drawMemory, drawGraph, drawHelps, drawBarriers, drawProofs, drawRoles, drawOperations, drawInspector, drawFoot]) draw();
document.body.dataset.ready = "true";
performance.mark("ready");
