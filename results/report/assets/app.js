// Start, addresses, colour scheme, keys, and following a live run.

const main = document.getElementById("main");
const live = document.getElementById("live");
const source = live ? served(JSON.parse(live.textContent)) : embedded();
let run = null;
let drawing = 0;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { view: parts[0] || "overview", name: parts.slice(1).join("/"), query: new URLSearchParams(query || "") };
}

async function draw(keepPlace) {
  const mine = ++drawing;
  const { view, name, query } = route();
  for (const key of Object.keys(filter)) if (query.has(key)) filter[key] = key === "frontier" ? true : query.get(key);
  const redraw = () => draw(true);
  const views = {
    overview: () => overview(run, source), tree: () => treeView(run, redraw), kernels: () => kernelList(run, redraw),
    log: () => logView(run), environment: () => environmentView(run), kernel: () => kernelView(run, source, name),
  };
  const focus = document.activeElement && document.activeElement.id;
  const caret = focus === "search" ? document.activeElement.selectionStart : null;
  const place = scrollY;
  let made;
  try { made = await (views[view] || views.overview)(); } catch (error) {
    console.error(error);
    made = h("p", { class: "card bad" }, "This cannot be shown: " + error.message);
  }
  if (mine !== drawing) return;
  tip.hide();
  main.replaceChildren(made);
  document.querySelectorAll("#nav a").forEach((a) => {
    const here = a.getAttribute("href") === "#/" + (views[view] ? view : "overview") || (view === "kernel" && a.getAttribute("href") === "#/kernels");
    if (here) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  });
  document.title = "Kernelgrove: " + run.run.name + (view === "kernel" ? " " + name : "");
  if (keepPlace) {
    scrollTo(0, place);
    const again = focus && document.getElementById(focus);
    if (again) { again.focus({ preventScroll: true }); if (caret !== null) again.setSelectionRange(caret, caret); }
  } else {
    scrollTo(0, 0);
    if (document.body.dataset.ready) main.focus({ preventScroll: true });
  }
  document.body.dataset.view = view;
  document.body.dataset.drawn = String(mine);
}

function header() {
  document.getElementById("run-name").textContent = run.run.name;
  const status = document.getElementById("run-status");
  status.textContent = run.run.status;
  status.className = "chip s-" + run.run.status;
  document.getElementById("run-line").textContent = `${run.run.task}` + (run.run.title && run.run.title !== run.run.task ? ` (${run.run.title})` : "") +
    `, begun ${run.run.created}` + (run.run.reason ? `; ${run.run.reason}` : "");
}

const schemes = ["system", "light", "dark"];
let scheme = 0;
document.getElementById("scheme").addEventListener("click", (event) => {
  scheme = (scheme + 1) % schemes.length;
  if (scheme) document.documentElement.dataset.scheme = schemes[scheme];
  else delete document.documentElement.dataset.scheme;
  const text = scheme ? schemes[scheme] : "as the system";
  event.currentTarget.setAttribute("aria-label", "Colour scheme: " + text);
  say("Colour scheme: " + text);
});

addEventListener("hashchange", () => { if (run) draw(false); });
addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  const search = document.getElementById("search");
  if (search) search.focus();
  else { location.hash = "#/tree"; setTimeout(() => { const s_ = document.getElementById("search"); if (s_) s_.focus(); }, 200); }
});
let resizing = 0, lastWidth = innerWidth;
addEventListener("resize", () => {
  clearTimeout(resizing);
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  resizing = setTimeout(() => { if (run) draw(true); }, 200);
});

async function begin() {
  run = link(await source.summary());
  header();
  await draw(false);
  document.body.dataset.drawnAt = String(performance.now());
  document.body.dataset.ready = "yes";
  if (source.live) follow();
}

begin().catch((error) => {
  console.error(error);
  main.replaceChildren(h("p", { class: "card bad" }, "The run cannot be read: " + error.message));
});
