// The dependence graph: a lane for each role, time to the right, critical cycle in red.
const NODE = { width: 84, height: 24, column: 112, lane: 104, left: 108, top: 46 };
const shownClasses = new Set(["flow", "carried"]);
let graphZoom = 0;

function drawGraph() {
  const place = bodyOf("graph");
  if (!D.graph || !D.graph.nodes.length) return place.append(h("p", { class: "note" }, "Needs a schedule file with a main loop."));
  const holder = h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Dependence graph; scrolls" });
  place.append(graphTools(() => build()), holder);
  let last = 0;
  const build = () => {
    holder.replaceChildren(graphPicture(holder.clientWidth || 1000));
    if (focused()) notify();
  };
  new ResizeObserver(() => {
    if (Math.abs(holder.clientWidth - last) > 2) { last = holder.clientWidth; build(); }
  }).observe(holder);
  holder.addEventListener("keydown", (event) => {
    if (event.target !== holder || !["+", "=", "-"].includes(event.key)) return;
    zoomGraph(event.key === "-" ? 1 / 1.25 : 1.25, holder);
    build();
    event.preventDefault();
  });
  painters.push(build);
  return undefined;
}
const graphWidth = () => NODE.left + D.graph.columns * NODE.column + 20;
function zoomGraph(factor, holder) {
  const now = graphZoom || fitGraph(holder.clientWidth);
  graphZoom = Math.min(Math.max(now * factor, 0.2), 3);
}
const fitGraph = (width) => Math.min(1.25, Math.max(width / graphWidth(), 0.55));

function graphTools(build) {
  const classes = ["flow", "carried", "anti", "output", "order"].filter((name) => D.edges.some((edge) => edge.class === name));
  const words = { flow: "flow", carried: "carried over", anti: "anti (read, then overwritten)", output: "output", order: "fixed order" };
  const holder = () => $("#graph .scroll");
  return h("div", { class: "tools" },
    h("div", { class: "group" },
      h("button", { type: "button", "aria-label": "Zoom out", onclick: () => { zoomGraph(1 / 1.25, holder()); build(); } }, "−"),
      h("button", { type: "button", "aria-label": "Zoom in", onclick: () => { zoomGraph(1.25, holder()); build(); } }, "+"),
      h("button", { type: "button", onclick: () => { graphZoom = 0; build(); } }, "Fit")),
    classes.map((name) => h("label", {}, h("input", { type: "checkbox", checked: shownClasses.has(name), onchange: (event) => {
      if (event.target.checked) shownClasses.add(name);
      else shownClasses.delete(name);
      build();
    } }), h("span", { class: `swatch ${name}` }), `${words[name]} ${D.edges.filter((edge) => edge.class === name).length}`)),
    h("span", {}, h("span", { class: "swatch crit" }), " critical cycle"), h("span", {}, "thick: no slack; +1: an iteration later"));
}

function graphEdges() {
  const merged = new Map();
  const add = (edge, extra) => {
    const key = `${edge.src} ${edge.dst} ${edge.distance}`;
    const known = merged.get(key);
    if (known) known.critical = known.critical || edge.critical;
    else merged.set(key, { ...edge, ...extra });
  };
  for (const edge of D.edges) if (shownClasses.has(edge.class) || edge.critical) add(edge);
  for (const edge of D.graph.orders) add({ ...edge, class: "order", critical: true, slack: 0 });
  return [...merged.values()];
}

function graphPicture(width) {
  const at = new Map(D.graph.nodes.map((node) => [node.id, { x: NODE.left + node.column * NODE.column, y: NODE.top + node.lane * NODE.lane, ...node }]));
  const tall = NODE.top + D.graph.lanes.length * NODE.lane - 20;
  const zoom = graphZoom || fitGraph(width);
  const wide = Math.max(graphWidth(), width / zoom);
  const lanes = D.graph.lanes.map((name, index) => [
    s("rect", { x: 0, y: NODE.top + index * NODE.lane - 38, width: wide, height: NODE.lane - 4, fill: palette.sunken, "fill-opacity": index % 2 ? 0.25 : 1 }),
    s("text", { x: 12, y: NODE.top + index * NODE.lane + 16, "font-size": 12, fill: palette.ink }, name.length > 13 ? `${name.slice(0, 12)}…` : name)]);
  const edges = graphEdges().sort((a, b) => Number(a.critical) - Number(b.critical));
  const picture = s("svg", { viewBox: `0 0 ${wide} ${tall}`, width: wide * zoom, height: tall * zoom, class: "marked", role: "group", "aria-label": "Dependence graph. Arrow keys move between operations." },
    arrowHeads(), lanes, edges.map((edge) => graphEdge(edge, at)), D.graph.nodes.map((node) => graphNode(at.get(node.id))));
  picture.addEventListener("keydown", moveBetweenCells);
  const first = $(".cell", picture);
  if (first) first.setAttribute("tabindex", 0);
  return picture;
}

function arrowHeads() {
  const names = { flow: palette.muted, carried: palette.carried, anti: palette.anti, output: palette.output, order: palette.order, critical: palette.critical };
  return s("defs", {}, Object.entries(names).map(([name, fill]) => s("marker", { id: `head-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
    s("path", { d: "M0 0.6L8 4L0 7.4Z", fill }))));
}

function graphEdge(edge, at) {
  const a = at.get(edge.src), b = at.get(edge.dst);
  if (!a || !b) return null;
  const { path, label } = edgePath(a, b);
  const name = edge.critical ? "critical" : edge.class;
  const classes = `edge ${edge.class} ${edge.critical ? "critical" : ""} ${edge.slack === 0 ? "tight" : ""}`;
  const line = s("path", { d: path, class: classes, "data-src": edge.src, "data-dst": edge.dst, "marker-end": `url(#head-${name})` },
    s("title", {}, `${edge.src} → ${edge.dst}: ${edge.class} ${edge.resource || edge.reason || ""}, ${edge.delay} cycles, distance ${edge.distance}${edge.slack === undefined ? "" : `, slack ${edge.slack}`}`));
  follow(line, `edges of ${edge.src}`);
  follow(line, `edges of ${edge.dst}`);
  if (!edge.distance) return line;
  return [line, s("text", { x: label[0], y: label[1], "font-size": 10.5, "text-anchor": "middle", class: "elabel", "data-src": edge.src, "data-dst": edge.dst,
    fill: edge.critical ? palette.critical : palette[edge.class], stroke: palette.surface, "stroke-width": 3, "paint-order": "stroke" }, signed(edge.distance))];
}

function edgePath(a, b) {
  const w = NODE.width, t = NODE.height;
  const ay = a.y + t / 2, by = b.y + t / 2;
  if (a === b) return { path: `M${a.x + w - 22} ${a.y}C${a.x + w - 16} ${a.y - 24} ${a.x + w + 12} ${a.y - 22} ${a.x + w - 3} ${a.y + 2}`, label: [a.x + w - 2, a.y - 18] };
  const columns = b.column - a.column;
  if (a.lane === b.lane) {
    if (columns === 1) return { path: `M${a.x + w} ${ay}L${b.x - 2} ${by}`, label: [a.x + w + 14, ay - 5] };
    // Forward above the lane, backward below it; the further, the higher, but within the lane.
    const rise = Math.min(10 + 3.4 * Math.sqrt(Math.abs(columns)) * 2, 34);
    const up = columns > 0;
    const y = up ? a.y : a.y + t, peak = up ? y - rise * 1.3 : y + rise * 1.3;
    const from = a.x + (up ? w * 0.72 : w * 0.28), to = b.x + (up ? w * 0.28 : w * 0.72);
    const run = Math.min(Math.abs(to - from) / 2, 46) * (up ? 1 : -1);
    return { path: `M${from} ${y}C${from + run} ${peak} ${to - run} ${peak} ${to} ${up ? b.y - 2 : y + 2}`, label: [(from + to) / 2, y + (peak - y) * 0.75] };
  }
  if (columns > 0) {
    const bend = Math.max(24, (b.x - a.x - w) * 0.45);
    return { path: `M${a.x + w} ${ay}C${a.x + w + bend} ${ay} ${b.x - bend} ${by} ${b.x - 2} ${by}`, label: [(a.x + w + b.x) / 2, (ay + by) / 2] };
  }
  const down = b.lane > a.lane;
  const y0 = down ? a.y + t : a.y, y1 = down ? b.y - 2 : b.y + t + 2;
  const bend = (y1 - y0) * 0.5;
  return { path: `M${a.x + w * 0.4} ${y0}C${a.x + w * 0.4} ${y0 + bend} ${b.x + w * 0.6} ${y1 - bend} ${b.x + w * 0.6} ${y1}`, label: [(a.x + b.x + w) / 2, (y0 + y1) / 2] };
}

function graphNode(node) {
  const { fill, edge, ink } = colour(node.id);
  const critical = criticalOps.has(node.id);
  return follow(s("g", { class: "cell", "data-op": node.id, tabindex: -1, role: "button", "aria-label": sentence({ op: node.id }),
    onpointerenter: () => point({ op: node.id, shown: null }), onpointerleave: () => point(null),
    onfocus: () => point({ op: node.id, shown: null }), onblur: () => point(null), onclick: () => choose({ op: node.id, shown: null }) },
  s("rect", { x: node.x, y: node.y, width: NODE.width, height: NODE.height, rx: 4, fill, stroke: critical ? palette.critical : edge, "stroke-width": critical ? 2 : 1 }),
  s("text", { x: node.x + NODE.width / 2, y: node.y + 16, "font-size": 12, "text-anchor": "middle", fill: ink }, node.id.length > 11 ? `${node.id.slice(0, 10)}…` : node.id)), `op ${node.id}`);
}
