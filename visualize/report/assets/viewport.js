// One time axis for the timeline and the memory maps: zoom, pan, and canvases that follow it.
const viewport = {
  min: 0, max: 1, from: 0, to: 1, followers: [],
  limits(min, max) {
    Object.assign(this, { min, max, from: min, to: max });
  },
  show(from, to) {
    const width = Math.min(Math.max(to - from, 20), this.max - this.min);
    const start = Math.min(Math.max(from, this.min), this.max - width);
    if (start === this.from && start + width === this.to) return;
    this.from = start;
    this.to = start + width;
    this.changed();
  },
  fit() { this.show(this.min, this.max); },
  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) / factor, at + (this.to - at) / factor);
  },
  pan(cycles) { this.show(this.from + cycles, this.to + cycles); },
  reveal(start, end) {
    const width = this.to - this.from;
    if (start < this.from || end > this.to) this.show((start + end - width) / 2, (start + end + width) / 2);
  },
  changed() { for (const follower of this.followers) follower.request(); },
};

const GUTTER = 116;
const TALL = 900; // pixels from which a chart is painted in part

// A canvas whose horizontal axis is the viewport. `draw(context, chart)` draws, `find(x, y)` gives the focus there.
class Chart {
  constructor(holder, label, height, draw, find) {
    this.draw = draw;
    this.find = find;
    this.height = height;
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": label, "aria-roledescription": "zoomable chart" });
    this.box = h("div", { class: "chart" }, this.canvas);
    this.box.style.height = `${height}px`;
    holder.append(this.box);
    this.pending = false;
    this.seen = false;
    viewport.followers.push(this);
    new ResizeObserver(() => this.request()).observe(this.box);
    // Only what is near the window is painted; the rest when it comes into view.
    new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      this.request();
    }, { rootMargin: "200px" }).observe(this.box);
    if (height > TALL) addEventListener("scroll", () => this.request(), { passive: true });
    this.listen();
  }
  x(time) { return GUTTER + ((time - viewport.from) / (viewport.to - viewport.from)) * this.room; }
  // Of a tall chart the canvas covers only what is near the window, and moves along with it.
  cover() {
    if (printing || this.height <= TALL) return [0, this.height];
    const size = Math.min(this.height, Math.max(innerHeight + 300, TALL));
    const above = -this.box.getBoundingClientRect().top - 150;
    return [Math.round(Math.min(Math.max(above, 0), this.height - size)), size];
  }
  near(top, bottom) {
    return bottom > this.skipped && top < this.skipped + this.covered;
  }
  time(x) { return viewport.from + ((x - GUTTER) / this.room) * (viewport.to - viewport.from); }
  get room() { return (this.width || this.box.clientWidth) - GUTTER - 10; } // also before it is painted
  request() {
    if (this.pending || !this.seen) return;
    this.pending = true;
    requestAnimationFrame(() => this.paint());
  }
  paint() {
    this.pending = false;
    const width = this.box.clientWidth;
    if (!width) return;
    [this.skipped, this.covered] = this.cover();
    const ratio = printing ? Math.min(3, 30000 / this.height) : window.devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(this.covered * ratio)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) {
      [this.canvas.width, this.canvas.height] = size;
      this.canvas.style.height = printing ? "auto" : `${this.covered}px`;
      this.box.style.height = printing ? "auto" : `${this.height}px`;
    }
    this.canvas.style.marginTop = `${this.skipped}px`;
    this.width = width;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, -this.skipped * ratio);
    context.clearRect(0, this.skipped, width, this.covered);
    this.draw(context, this);
  }
  listen() {
    const canvas = this.canvas;
    let drag = null;
    const at = (event) => {
      const box = this.box.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { x: event.clientX, from: viewport.from, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return point(this.find(...at(event)));
      const moved = event.clientX - drag.x;
      if (Math.abs(moved) > 3) drag.moved = true;
      if (!drag.moved) return undefined;
      canvas.classList.add("dragging");
      const scale = (viewport.to - viewport.from) / this.room;
      return viewport.show(drag.from - moved * scale, drag.from - moved * scale + viewport.to - viewport.from);
    });
    const release = (event) => {
      if (drag && !drag.moved && event.type === "pointerup") {
        const found = this.find(...at(event));
        if (found || chosen) choose(found);
      }
      drag = null;
      canvas.classList.remove("dragging");
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => point(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event, at(event)[0]), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.request());
    canvas.addEventListener("blur", () => this.request());
  }
  // The page scrolls as usual until the chart has the focus; with Ctrl the wheel always zooms.
  wheel(event, x) {
    const mine = document.activeElement === this.canvas || event.ctrlKey || event.metaKey;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!mine && !sideways) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (sideways) viewport.pan(((event.deltaX || event.deltaY) * unit * (viewport.to - viewport.from)) / this.room);
    else viewport.zoom(Math.exp(-event.deltaY * unit * 0.0022), this.time(x));
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (viewport.to - viewport.from) / 8;
    const keys = {
      "+": () => viewport.zoom(1.4), "=": () => viewport.zoom(1.4), "-": () => viewport.zoom(1 / 1.4),
      ArrowLeft: () => viewport.pan(-step), ArrowRight: () => viewport.pan(step), Home: () => viewport.fit(),
      Escape: () => chosen && choose(chosen), ...this.more,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

function zoomTools(hint) {
  const button = (text, label, action) => h("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  return h("div", { class: "tools" },
    h("div", { class: "group" }, button("−", "Zoom out", () => viewport.zoom(1 / 1.6)), button("+", "Zoom in", () => viewport.zoom(1.6)),
      button("←", "Earlier", () => viewport.pan((viewport.from - viewport.to) / 4)), button("→", "Later", () => viewport.pan((viewport.to - viewport.from) / 4)),
      button("Fit", "Show everything", () => viewport.fit())),
    h("span", { class: "hint" }, hint));
}

// Round steps of time, about `wanted` of them in `span`.
function tickStep(span, wanted) {
  const raw = span / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return Math.max(1, [1, 2, 5, 10].find((unit) => unit * power >= raw) * power);
}

function drawAxis(context, chart, top, bottom) {
  const span = viewport.to - viewport.from;
  const step = tickStep(span, chart.room / 90);
  context.font = `11px ${palette.mono}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const time of ticks(step)) {
    const x = Math.round(chart.x(time)) + 0.5;
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
    const text = number(realTime(time));
    if (x + 4 + text.length * 6.7 > chart.width) continue;
    context.fillStyle = palette.muted;
    context.fillText(text, x + 4, top + 8);
  }
}

// Round cycles in view. Those behind the cut are round with the periods that it leaves out.
function ticks(step) {
  const cut = D.timeline.cut;
  const found = [];
  const add = (from, to, skipped) => {
    for (let real = Math.ceil((from + skipped) / step) * step; real <= to + skipped; real += step) found.push(real - skipped);
  };
  add(viewport.from, cut ? Math.min(viewport.to, cut.at - 1) : viewport.to, 0);
  if (cut) add(Math.max(viewport.from, cut.at), viewport.to, cut.iterations * D.ii);
  return found;
}

// The cycle that a place on the axis stands for: periods that are left out count.
function realTime(time) {
  const cut = D.timeline.cut;
  return (cut && time >= cut.at ? time + cut.iterations * D.ii : time) || 0;
}
// The iteration of the tile that starts something at `time` as the `shown`-th of those drawn.
function realIteration(shown, time) {
  const cut = D.timeline.cut;
  return cut && time >= cut.at ? shown + cut.iterations : shown;
}

// The rectangle of a bar, with its colours; narrow bars lose their border so that they stay visible.
function drawBar(context, x0, x1, y, height, colours) {
  const width = Math.max(x1 - x0, 1);
  context.fillStyle = colours.fill;
  context.fillRect(x0, y, width, height);
  if (width > 3) {
    context.strokeStyle = colours.edge;
    context.lineWidth = 1;
    context.strokeRect(x0 + 0.5, y + 0.5, width - 1, height - 1);
  }
}
function drawLabel(context, text, x0, x1, y, height, ink) {
  const left = Math.max(x0, GUTTER), right = Math.min(x1, context.canvas.width);
  const label = fitText(text, right - left);
  if (!label) return;
  context.fillStyle = ink;
  context.fillText(label, left + 4, y + height / 2 + 0.5);
}
