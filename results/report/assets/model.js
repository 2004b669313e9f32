// Where the data comes from (the file itself, or `grove serve`), and the run as linked objects.

function embedded() {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const where = read("where");
  const cache = new Map();
  async function chunk(n) {
    if (!cache.has(n)) {
      cache.set(n, (async () => {
        const packed = Uint8Array.from(
          atob(document.getElementById("chunk-" + n).textContent), (c) => c.charCodeAt(0));
        const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
        return JSON.parse(await new Response(stream).text());
      })());
      if (cache.size > 24) cache.delete(cache.keys().next().value);
    }
    return cache.get(n);
  }
  const document_ = async (key) => (key in where ? (await chunk(where[key]))[key] : null);
  return {
    live: false,
    summary: async () => read("summary"),
    kernel: (candidate) => document_("k" + candidate.at),
    call: (id) => document_("c" + id),
  };
}

function served(api) {
  const get = async (path) => {
    const reply = await fetch("/" + api + path, { cache: "no-store" });
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  };
  return {
    live: true,
    api,
    summary: () => get("/summary"),
    kernel: (candidate) => get("/kernel/" + encodeURIComponent(candidate.name)),
    call: (id) => get("/call/" + id),
  };
}

function link(data) {
  const run = { ...data, byName: new Map() };
  run.candidates.forEach((c, at) => {
    c.at = at;
    c.children = [];
    run.byName.set(c.name, c);
  });
  run.ideas.forEach((idea, at) => { idea.at = at; idea.candidates = []; });
  for (const c of run.candidates) {
    c.parentRow = c.parent >= 0 ? run.candidates[c.parent] : null;
    c.ideaRow = c.idea >= 0 ? run.ideas[c.idea] : null;
    if (c.ideaRow) c.ideaRow.candidates.push(c);
    const idea = c.ideaRow;
    c.find = [c.name, idea ? idea.title : "", idea ? idea.category : "", idea ? idea.rationale : "",
              c.message || "", words(c.verdict)].join("\n").toLowerCase();
  }
  for (const idea of run.ideas) {
    idea.parentRow = idea.parent >= 0 ? run.candidates[idea.parent] : null;
    if (idea.parentRow) idea.parentRow.children.push(idea);
  }
  run.bestRow = run.best >= 0 ? run.candidates[run.best] : null;
  run.seedRow = run.seed >= 0 ? run.candidates[run.seed] : null;
  run.kind = (run.bestRow && run.bestRow.kind) || "modelled";
  run.path = new Set();
  for (let at = run.bestRow; at && !run.path.has(at); at = at.parentRow) run.path.add(at);
  run.categories = [...new Set(run.ideas.map((i) => i.category))].filter(Boolean).sort();
  run.verdicts = [...new Set(run.candidates.map((c) => c.verdict || "waiting"))].sort();
  return run;
}

// What the user asked to see; shared by the tree and the list, and part of the address.
const filter = { text: "", verdict: "", category: "", round: "", frontier: false };
const filtering = () =>
  Boolean(filter.text || filter.verdict || filter.category || filter.round || filter.frontier);
function matches(c) {
  if (filter.verdict && (c.verdict || "waiting") !== filter.verdict &&
      groupOf(c.verdict) !== filter.verdict) return false;
  if (filter.category && (!c.ideaRow || c.ideaRow.category !== filter.category)) return false;
  if (filter.round && String(c.round) !== filter.round) return false;
  if (filter.frontier && !c.frontier) return false;
  return !filter.text || filter.text.toLowerCase().split(/\s+/).every((w) => c.find.includes(w));
}
