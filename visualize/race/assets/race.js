const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const root = document.documentElement;
const findings = all(".finding");
const say = (text) => ($("#say").textContent = text);

// -- theme --------------------------------------------------------------------------------------
const themes = ["system", "light", "dark"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";
function applyTheme() {
  root.dataset.theme = theme === "system" ? (systemDark.matches ? "dark" : "light") : theme;
  $("#theme").textContent = `Theme: ${theme}`;
}
$("#theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  applyTheme();
});
systemDark.addEventListener("change", applyTheme);

// -- findings -----------------------------------------------------------------------------------
let current = 0;
function show(number, focus) {
  if (!findings[number]) return;
  current = number;
  const finding = findings[number];
  finding.open = true;
  finding.scrollIntoView();
  if (focus) $("summary", finding).focus({ preventScroll: true });
  all("#nav a").forEach((link, at) => link.setAttribute("aria-current", at === number));
}
function showNamed(focus) {
  const at = findings.findIndex((finding) => `#${finding.id}` === location.hash);
  if (at >= 0) show(at, focus);
}
addEventListener("hashchange", () => showNamed(true));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (step) show(Math.min(Math.max(current + step, 0), findings.length - 1), true);
  if (event.key === "Escape") press("", null);
});

// -- barriers: where else one is used -----------------------------------------------------------
function press(name, finding) {
  for (const button of all("button.barrier")) {
    const on = !!name && button.dataset.barrier === name && button.closest(".finding") === finding;
    button.setAttribute("aria-pressed", on);
  }
  let count = 0;
  for (const row of all(".steps tr[data-barrier]")) {
    const on = !!name && row.dataset.barrier === name && row.closest(".finding") === finding;
    row.classList.toggle("on", on);
    count += on;
  }
  say(name ? `${name}: ${count} steps` : "");
}
addEventListener("click", (event) => {
  const button = event.target.closest("button.barrier");
  if (!button) return;
  const pressed = button.getAttribute("aria-pressed") === "true";
  press(pressed ? "" : button.dataset.barrier, button.closest(".finding"));
});

// -- begin at the first finding -----------------------------------------------------------------
addEventListener("beforeprint", () => findings.forEach((finding) => (finding.open = true)));
applyTheme();
if (location.hash) showNamed(false);
else show(0, false);
document.body.dataset.ready = "true";
document.body.dataset.complete = "true";
