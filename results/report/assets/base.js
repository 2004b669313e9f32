// Elements, numbers and words. Text goes into the page by textContent alone.

const svgSpace = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child.nodeType ? child : document.createTextNode(String(child)));
  }
  return element;
}

const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(svgSpace, tag), attributes, children);

// As grove prints them: four significant digits in the unit that keeps them readable.
function time(ns) {
  if (ns === null || ns === undefined || !isFinite(ns) || ns < 0) return "-";
  const units = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]];
  const unit = units.find(([name, scale]) => name === "s" || ns / scale < 999.95);
  const value = ns / unit[1];
  const before = value >= 1000 ? 4 : value >= 100 ? 3 : value >= 10 ? 2 : 1;
  return value.toFixed(Math.max(0, 4 - before)) + " " + unit[0];
}
const ratio = (r) =>
  r === null || r === undefined || !isFinite(r) ? "-" : (r < 99.5 ? r.toFixed(2) : r.toFixed(0)) + "x";
const share = (x) => (x === null || x === undefined || !isFinite(x) ? "-" : (x * 100).toFixed(1) + "%");
const count = (n) => (n === null || n === undefined ? "-" : Math.round(n).toLocaleString("en-US"));
function bytes(n) {
  if (!n) return n === 0 ? "0 B" : "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1023.95 && i + 1 < units.length) { n /= 1024; ++i; }
  return (i ? n.toFixed(1) : n) + " " + units[i];
}
const moment = (us) => new Date(us / 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC";
const words = (name) => (name || "").replaceAll("_", " ");
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1).trimEnd() + "…" : text);

// Verdicts in groups of one colour; the word is always there too.
const groups = {
  pass: ["pass"],
  wrong: ["wrong_result", "unstable", "nondeterministic", "unwritten", "uninitialised"],
  unsafe: ["out_of_bounds", "misaligned", "race", "barrier_divergence", "trap", "timeout",
           "input_modified"],
  unbuilt: ["parse_error", "plan_error", "compile_error", "compile_timeout", "compile_memory"],
};
const groupOf = (verdict) => {
  if (!verdict) return "waiting";
  const key = verdict.replaceAll(" ", "_");
  for (const [name, kinds] of Object.entries(groups)) if (kinds.includes(key)) return name;
  return "other";
};
const groupWords = {
  pass: "pass", wrong: "wrong values", unsafe: "unsafe", unbuilt: "not built", other: "other",
  waiting: "not evaluated yet",
};

function table(head, rows, attributes) {
  return h("div", { class: "scroll", tabindex: "0", role: "region",
                    "aria-label": (attributes && attributes.label) || "Table" },
    h("table", { class: attributes && attributes.class },
      attributes && attributes.label ? h("caption", { class: "hidden" }, attributes.label) : null,
      h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}

// A picture and the table that says the same; the table is made when it is opened.
function figure(title, picture, makeTable, note) {
  const body = h("div", {});
  const details = h("details", { class: "as-table" }, h("summary", {}, "As a table"), body);
  details.addEventListener("toggle", () => {
    if (details.open && !body.firstChild) body.append(makeTable());
  });
  return h("figure", { class: "card" },
    h("figcaption", {}, h("h2", {}, title), note ? h("p", { class: "dim" }, note) : null),
    picture, details);
}

const chip = (verdict) =>
  h("span", { class: "chip v-" + groupOf(verdict) }, verdict ? words(verdict) : "waiting");
const kernelLink = (name, text) =>
  h("a", { href: "#/kernel/" + encodeURIComponent(name) }, text || name);

const tip = {
  show(x, y, lines) {
    const box = document.getElementById("tip");
    box.replaceChildren(...lines.map((line) => h("div", {}, line)));
    box.hidden = false;
    const width = box.offsetWidth, height = box.offsetHeight;
    box.style.left = Math.max(4, Math.min(x + 12, innerWidth - width - 4)) + "px";
    box.style.top = (y + height + 24 > innerHeight ? y - height - 10 : y + 14) + "px";
  },
  hide() { document.getElementById("tip").hidden = true; },
};

function say(text) { document.getElementById("notice").textContent = text; }
