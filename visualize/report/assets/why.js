// Header, key figures, and why the II is what it is.
function drawHeader() {
  $("#kernel").textContent = D.kernel;
  $("#subtitle").textContent = `${D.target} (${D.arch})${D.schedule ? `, latencies at their ${D.schedule.latencies} end` : ""}`;
  const sections = [["why", "Why"], ["period", "Period"], ["timeline", "Timeline"], ["memory", "Memory"], ["graph", "Dependences"],
    ["helps", "What would help"], ["barriers", "Barriers"], ["proofs", "Orders"], ["roles", "Roles"], ["operations", "Operations"]];
  // A program has no times: what needs them is left out, and a sentence below the figures says so.
  const timed = ["period", "timeline", "memory", "graph", "operations"];
  const absent = D.schedule ? [] : timed;
  for (const id of absent) $(`#${id}`).hidden = true;
  const links = sections.filter(([id]) => !absent.includes(id)).map(([id, text]) => h("a", { href: `#${id}` }, text));
  $("#nav").append(...links);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) links.forEach((link) => link.setAttribute("aria-current", link.hash === `#${entry.target.id}`));
    }
  }, { rootMargin: "-70px 0px -70% 0px" });
  sections.forEach(([id]) => seen.observe($(`#${id}`)));
  const names = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
  const button = $("#theme");
  button.textContent = names[wantedTheme];
  button.addEventListener("click", () => {
    wantedTheme = { auto: "light", light: "dark", dark: "auto" }[wantedTheme];
    button.textContent = names[wantedTheme];
    applyTheme();
    redraw();
  });
}

function figure(name, value, note, main) {
  return h("div", { class: main ? "figure main" : "figure" }, h("dt", {}, name), h("dd", {}, value), note && h("dd", {}, note));
}

function drawFigures() {
  const list = h("dl", { class: "card figures" });
  const plan = D.schedule;
  const badge = plan && h("span", { class: `badge ${plan.proven ? "good" : "warn"}` }, plan.proven ? "proven optimal" : `not proven, bound ${number(plan.bound)}`);
  list.append(figure("II, cycles per iteration", number(D.ii), badge, true));
  if (plan) {
    list.append(figure("Slowest cycle", number(plan.ratios.high || 0), `${number(plan.ratios.low || 0)} with low latencies`));
  }
  if (D.pace) list.append(figure("Synchronized program", number(D.pace.high), `${number(D.pace.low)} with low latencies`));
  if (plan) {
    list.append(figure("Pipeline", plural(plan.stages, "stage"), `one iteration ${number(plan.length)} cycles`));
    if (plan.period) {
      list.append(figure("Output tile", number(plan.period), `${plural(plan.trips, "iteration")}, ${percent(plan.floor / plan.period)} main loop`));
    }
  }
  const warps = D.roles.reduce((sum, role) => sum + role.warps, 0);
  list.append(figure("Roles", String(D.roles.length), plural(warps, "warp")));
  for (const panel of D.memory.filter((panel) => panel.space !== "registers")) {
    list.append(figure(panel.title[0].toUpperCase() + panel.title.slice(1), percent(panel.used / panel.room), `${number(panel.used)} of ${number(panel.room)} ${panel.unit}`));
  }
  const proof = D.proofs;
  if (proof) {
    const bad = proof.findings.length;
    const words = D.barriers.reduce((sum, barrier) => sum + barrier.slots, 0);
    list.append(figure("Synchronization", plural(D.barriers.length, "barrier"), `in ${plural(words, "word")}`));
    list.append(figure("Proof by paths", h("span", { class: `badge ${bad ? "bad" : "good"}` }, bad ? plural(bad, "finding") : "proven"),
      bad ? "see the orders below" : "no race, no deadlock, for all trip counts, tiles and latencies"));
  }
  const chips = plan ? h("div", { class: "chips" }, Object.entries(plan.choices).map(([name, value]) => h("span", {}, `${name}: `, h("b", {}, value)))) : null;
  $("#figures").append(list);
  if (chips && chips.childElementCount) $("#figures").append(chips);
  if (D.missing) $("#figures").append(h("p", { class: "note" }, `There is no program for this schedule: ${D.missing}. Barriers, orders and exact memory maps are left out.`));
  if (!plan) $("#figures").append(h("p", { class: "note" }, "A program file has no start times: pictures over time are left out. Give the schedule file to see them."));
}

function loadRows() {
  const rows = D.loads.map((load) => ({ ...load, ratio: load.cycles }));
  if (bindingCycle) {
    rows.push({ name: "slowest dependence cycle", kind: "cycle", ratio: bindingCycle.delay / bindingCycle.distance,
      parts: bindingCycle.links.filter((link) => link.delay > 0).map((link) => [link.src, link.delay / bindingCycle.distance]) });
  }
  return rows.sort((a, b) => b.ratio - a.ratio);
}

function drawLoads() {
  const rows = loadRows();
  const scale = Math.max(D.ii, ...rows.map((row) => row.ratio));
  const kinds = { exclusive: "one operation at a time", rate: "shared rate", role: "role, issuing", cycle: "delay / iterations" };
  const grid = h("div", { class: "loads" });
  for (const row of rows) {
    const bar = h("div", { class: "bar", role: "img", "aria-label": `${row.name}: ${number(row.ratio)} of ${D.ii} cycles; ${row.parts.map(([id, cycles]) => `${id} ${number(cycles)}`).join(", ")}` });
    for (const [id, cycles] of row.parts.length ? row.parts : [["", row.ratio]]) {
      const op = ops.get(id);
      const part = follow(h("i", { title: `${id}: ${number(cycles)} cycles`, class: op ? `f${op.family}` : "other", "data-hover": id }), `op ${id}`);
      part.style.width = `${(100 * cycles) / scale}%`;
      bar.append(part);
    }
    const mark = h("b", {});
    mark.style.left = `calc(${(100 * D.ii) / scale}% - 1px)`;
    bar.append(mark);
    grid.append(h("div", { class: "name" }, row.name, h("small", {}, kinds[row.kind])), bar,
      h("div", { class: "value" }, number(row.ratio), h("small", {}, percent(row.ratio / D.ii))));
  }
  hoverable(grid);
  return h("div", { class: "card" }, h("h3", {}, "Cycles per iteration against the II"), grid,
    h("p", { class: "note" }, h("span", { class: "critical" }, "The red line"), ` is the II, ${number(D.ii)} cycles. No unit and no role may need more; the longest bars are what stands in its way.`));
}

function chain(links) {
  const line = h("div", { class: "chain" });
  links.forEach((link) => {
    const far = link.distance ? [" ", h("em", { title: `reaches ${link.distance} iterations further` }, `${signed(link.distance)} it`)] : [];
    line.append(opButton(link.src), h("span", { class: "link", title: link.reason }, `${number(link.delay)}`, far, " →"));
  });
  if (links.length) line.append(opButton(links[0].src));
  return line;
}

function drawCertificate() {
  const card = h("div", { class: "card" });
  const plan = D.schedule;
  const by = plan.certificate.confirmed_by ? ` Confirmed by ${plan.certificate.confirmed_by}.` : "";
  card.append(h("h3", {}, `Certificate: ${plan.certificate.kind}`), h("p", { class: "why-text" }, `${plan.certificate.text}.${by}`));
  if (D.why.length) {
    card.append(h("p", { class: "why-text" }, D.why[0]));
    if (D.why.length > 1) card.append(h("ul", { class: "why-text" }, D.why.slice(1).map((line) => h("li", {}, line))));
  }
  if (!D.why.length && plan.certificate.kind === "infeasible") {
    card.append(h("p", { class: "note" }, "Which facts exclude it: ", h("code", {}, `schedgen solve ${D.kernel} --target ${D.target} --explain`)));
  }
  const list = plan.objectives.map(([name, value, proven]) => `${name} ${number(value)}${proven ? "" : " (not proven best)"}`);
  if (list.length) card.append(h("h3", {}, "Among schedules with this II, best first in"), h("p", { class: "note" }, list.join(", "), "."));
  for (const note of plan.notes) card.append(h("p", { class: "note" }, note));
  return card;
}

function drawCycles() {
  const card = h("div", { class: "card" });
  for (const cycle of D.cycles) {
    const ratio = cycle.distance ? cycle.delay / cycle.distance : 0;
    card.append(h("h3", {}, `${cycle.title[0].toUpperCase()}${cycle.title.slice(1)}: ${number(cycle.delay)} cycles over ${plural(cycle.distance, cycle.unit)} = ${number(ratio)}`));
    card.append(cycle.key === "tile" ? h("p", { class: "note mono" }, cycle.links.map((link) => `${link.src} → ${link.dst} (${number(link.delay)}, ${link.reason})`).join("; ")) : chain(cycle.links));
  }
  if (D.pace) {
    const floor = D.loads.filter((load) => load.kind !== "role").reduce((most, load) => Math.max(most, load.cycles), 0);
    const what = D.pace.cycle.length > 1 ? "The synchronized program's slowest cycle" : "The synchronized program is limited by";
    card.append(h("h3", {}, `${what}, high latencies: ${number(D.pace.high)}`), h("p", { class: "note mono" }, D.pace.cycle.join(" → ")));
    if (D.pace.high > D.ii && D.pace.high > floor) card.append(h("p", { class: "note" }, `With high latencies the program is ${percent(D.pace.high / D.ii - 1)} slower than the II, because of the waits on that cycle.`));
  }
  return card.childElementCount ? card : null;
}

function drawWhy() {
  if (!D.schedule) {
    bodyOf("why").append(h("p", { class: "note" }, D.pace ? `The program runs ${number(D.pace.high)} cycles per iteration with high latencies, set by ${D.pace.cycle.join(" → ")}.` : "Nothing to show."));
    return;
  }
  bodyOf("why").append(h("div", { class: "whygrid" }, h("div", {}, drawLoads(), drawCycles()), drawCertificate()));
}
