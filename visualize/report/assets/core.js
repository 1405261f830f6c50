// Data, element makers, colours, and what is in focus. All text goes through textContent.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (selector, root = document) => root.querySelector(selector);
const bodyOf = (id) => $(`#${id} .body`);

function make(space, tag, attributes, children) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}
const h = (tag, attributes, ...children) => make(null, tag, attributes, children);
const s = (tag, attributes, ...children) => make("http://www.w3.org/2000/svg", tag, attributes, children);

// -- numbers ------------------------------------------------------------------------------------
const number = (value) => Number(value).toLocaleString("en-US", { maximumFractionDigits: 1 });
const percent = (value) => `${(100 * value).toFixed(1)}%`;
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
const signed = (value) => (value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0");

// -- the schedule's relations -------------------------------------------------------------------
const ops = new Map(D.ops.map((op) => [op.id, op]));
const into = new Map(D.ops.map((op) => [op.id, []]));
const outOf = new Map(D.ops.map((op) => [op.id, []]));
for (const edge of D.edges) {
  outOf.get(edge.src).push(edge);
  into.get(edge.dst).push(edge);
}
const criticalOps = new Set();
const bindingCycle = D.cycles.find((cycle) => cycle.key === "certificate") || D.cycles.find((cycle) => cycle.key === "schedule");
for (const link of bindingCycle ? bindingCycle.links : []) criticalOps.add(link.src);
const signalsOf = new Map(D.barriers.map((barrier) => [barrier.name, new Set()]));
const waitsOf = new Map(D.barriers.map((barrier) => [barrier.name, new Set()]));
for (const op of D.ops) {
  for (const step of op.signals) if (signalsOf.has(step.barrier)) signalsOf.get(step.barrier).add(op.id);
  for (const step of op.waits) if (waitsOf.has(step.barrier) && step.do === "wait") waitsOf.get(step.barrier).add(op.id);
}

// Run again when colours change.
const painters = [];

// -- theme and colours --------------------------------------------------------------------------
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let wantedTheme = "auto";
let printing = false;
let palette = {};
const isDark = () => root.dataset.theme === "dark" && !printing;

function applyTheme() {
  root.dataset.theme = wantedTheme === "auto" ? (systemDark.matches ? "dark" : "light") : wantedTheme;
  readPalette();
}
function readPalette() {
  const style = getComputedStyle(root);
  palette = {};
  for (const name of ["bg", "surface", "sunken", "ink", "muted", "line", "accent", "critical", "pred", "succ", "carried", "anti", "output", "order"]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
  palette.flow = palette.muted;
  palette.mono = style.getPropertyValue("--mono");
  palette.sans = style.getPropertyValue("--sans");
  colours.clear();
  paintFamilies();
}
// Buttons of operations have the class of their family: a change of theme changes one style sheet.
function paintFamilies() {
  const rules = [...new Map(D.ops.map((op) => [op.family, op])).values()].map((op) => {
    const { fill, ink } = colour(op.id);
    return `.f${op.family}{background:${fill};color:${ink}}`;
  });
  $("#families").textContent = rules.join("");
}
const colours = new Map();
// Operations of one name share a hue; iterations take turns in three shades of it.
function colour(id, iteration = 0) {
  const op = ops.get(id);
  const shade = op && op.phase !== "body" ? 0 : ((iteration % 3) + 3) % 3;
  const key = `${op ? op.family : -1} ${shade}`;
  let found = colours.get(key);
  if (!found) {
    const hue = op ? (255 + op.family * 137.508) % 360 : 0;
    const chroma = op ? 0.085 : 0.004;
    const light = isDark() ? [0.42, 0.49, 0.36][shade] : [0.83, 0.765, 0.885][shade];
    found = {
      fill: `oklch(${light} ${chroma} ${hue.toFixed(0)})`,
      edge: `oklch(${isDark() ? light + 0.17 : light - 0.2} ${chroma + 0.02} ${hue.toFixed(0)})`,
      ink: isDark() ? "#f5f5f3" : `oklch(0.27 0.05 ${hue.toFixed(0)})`,
    };
    colours.set(key, found);
  }
  return found;
}

// -- focus: what the pointer is on, or what was chosen ------------------------------------------
// A focus is {op, shown} (shown: number of the iteration among those drawn, or null) or {barrier}.
let pointed = null;
let chosen = null;
const listeners = [];
const onFocus = (listener) => listeners.push(listener);
const focused = () => pointed || chosen;
const same = (a, b) => a === b || (a && b && a.op === b.op && a.shown === b.shown && a.barrier === b.barrier && a.buffer === b.buffer);

function point(focus) {
  if (same(pointed, focus)) return;
  pointed = focus;
  notify();
}
function choose(focus) {
  chosen = same(chosen, focus) ? null : focus;
  pointed = null;
  notify();
  say(chosen ? sentence(chosen) : "nothing selected");
}
function notify() {
  relation = relate(focused());
  for (const listener of listeners) listener(focused(), relation);
}
const say = (text) => ($("#say").textContent = text);

function sentence(focus) {
  if (focus.barrier) return `barrier ${focus.barrier}`;
  const op = ops.get(focus.op);
  const when = op.phase === "body" ? `slot ${op.slot}, stage ${op.stage}` : `${op.phase} the main loop`;
  return `${op.id} of ${op.role}${op.unit ? ` on ${op.unit}` : ""}, ${when}, ${op.latency} cycles; ` +
    `after ${[...new Set(into.get(op.id).map((edge) => edge.src))].join(", ") || "nothing"}; ` +
    `before ${[...new Set(outOf.get(op.id).map((edge) => edge.dst))].join(", ") || "nothing"}`;
}

// Which operations are the focus itself, before it and after it.
let relation = { on: new Set(), pred: new Set(), succ: new Set() };
function relate(focus) {
  const found = { on: new Set(), pred: new Set(), succ: new Set() };
  if (focus && focus.op) {
    found.on.add(focus.op);
    for (const edge of into.get(focus.op) || []) if (edge.src !== focus.op) found.pred.add(edge.src);
    for (const edge of outOf.get(focus.op) || []) if (edge.dst !== focus.op && !found.pred.has(edge.dst)) found.succ.add(edge.dst);
  } else if (focus && focus.barrier) {
    for (const id of signalsOf.get(focus.barrier) || []) found.pred.add(id);
    for (const id of waitsOf.get(focus.barrier) || []) found.succ.add(id);
  }
  return found;
}
const classOf = (id) => (relation.on.has(id) ? "on" : relation.pred.has(id) ? "pred" : relation.succ.has(id) ? "succ" : "");

// -- small parts that many sections use ---------------------------------------------------------
// A click on a button of an operation or a barrier selects it, wherever on the page it is.
function opButton(id, label = id) {
  if (!ops.has(id)) return h("span", { class: "mono" }, label);
  return follow(h("button", { type: "button", class: `op f${ops.get(id).family}`, "data-op": id }, label), `op ${id}`);
}
function barrierButton(name) {
  return follow(h("button", { type: "button", class: "barrier", "data-barrier": name }, name), `barrier ${name}`);
}
addEventListener("click", (event) => {
  const button = event.target.closest("button.op, button.barrier");
  if (!button) return;
  choose(button.dataset.op ? { op: button.dataset.op, shown: null } : { barrier: button.dataset.barrier });
});

// Pointing at a node with `data-hover` inside `holder` puts its operation in focus.
function hoverable(holder) {
  holder.addEventListener("pointerover", (event) => {
    const node = event.target.closest("[data-hover]");
    point(node && ops.has(node.dataset.hover) ? { op: node.dataset.hover, shown: null } : null);
  });
  holder.addEventListener("pointerleave", () => point(null));
}

// Nodes that show whether their operation or barrier is in focus; those that left the page are forgotten.
const followers = new Map();
const lit = new Set();
function follow(node, subject) {
  if (!followers.has(subject)) followers.set(subject, new Set());
  followers.get(subject).add(node);
  return node;
}
onFocus((focus) => {
  for (const node of lit) node.classList.remove("on", "pred", "succ");
  lit.clear();
  const light = (subject, name) => {
    for (const node of followers.get(subject) || []) {
      if (!node.isConnected) followers.get(subject).delete(node);
      else {
        node.classList.add(name);
        lit.add(node);
      }
    }
  };
  for (const name of ["on", "pred", "succ"]) for (const id of relation[name]) light(`op ${id}`, name);
  for (const id of relation.on) light(`edges of ${id}`, "on");
  for (const picture of document.querySelectorAll("svg.marked")) picture.classList.toggle("focused", !!focus);
  if (focus && focus.barrier) light(`barrier ${focus.barrier}`, "on");
});
function fitText(text, width, perChar = 6.7) {
  const room = Math.floor((width - 6) / perChar);
  if (room >= text.length) return text;
  const name = text.replace(/\[.*/, "");
  return room >= name.length && room >= 2 ? name : "";
}
