// One kernel: numbers, program, difference from another, what was asked and answered.

// CUDA's own words on top of Prism's C++.
function grammar() {
  if (!Prism.languages.cuda) {
    Prism.languages.cuda = Prism.languages.extend("cpp", {});
    Prism.languages.insertBefore("cuda", "keyword", {
      "cuda": /\b__(?:global|device|shared|host|constant|restrict|launch_bounds|forceinline|noinline|cluster_dims|grid_constant)__\b|\b__\w+(?=\s*\()|\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b/,
    });
  }
  return Prism.languages.cuda;
}

// Tokens of Prism as spans whose texts are set, line by line.
function highlight(text, language) {
  const lines = [[]];
  const put = (piece, type) => {
    piece.split("\n").forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part) lines[lines.length - 1].push(type ? h("span", { class: "t-" + type }, part) : part);
    });
  };
  const walk = (token, type) => {
    if (typeof token === "string") put(token, type);
    else if (Array.isArray(token)) token.forEach((part) => walk(part, type));
    else walk(token.content, token.type);
  };
  if (language === "json") {
    const json = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)/g;
    let last = 0;
    for (const m of text.matchAll(json)) {
      put(text.slice(last, m.index), null);
      put(m[1] || m[0], m[1] ? (m[2] ? "property" : "string") : m[3] ? "keyword" : "number");
      if (m[2]) put(m[2], null);
      last = m.index + m[0].length;
    }
    put(text.slice(last), null);
  } else if (text.length < 400000) {
    walk(Prism.tokenize(text, grammar()), null);
  } else {
    put(text, null);
  }
  return lines;
}

function codeBlock(text, language, label) {
  if (!text) return h("p", { class: "dim" }, "None.");
  const copy = h("button", { type: "button", class: "quiet copy" }, "Copy");
  copy.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); say("Copied"); copy.textContent = "Copied"; }
    catch { say("The browser does not let this page copy"); }
  });
  return h("div", { class: "code-box" }, copy,
    h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label }, h("ol", {},
      highlight(text.replace(/\n$/, ""), language).map((line) => h("li", {}, h("code", {}, line))))));
}

function pretty(json) {
  try { return JSON.stringify(JSON.parse(json), null, 2); } catch { return json; }
}

// Lines added and removed, unchanged ones folded but for three around each change.
function diffBlock(before, after, label) {
  const parts = Diff.diffLines(before, after);
  const rows = [];
  let a = 0, b = 0, added = 0, removed = 0;
  for (const part of parts) {
    const lines = part.value.replace(/\n$/, "").split("\n");
    for (const text of lines) {
      if (part.added) { rows.push({ sign: "+", a: "", b: ++b, text }); ++added; }
      else if (part.removed) { rows.push({ sign: "−", a: ++a, b: "", text }); ++removed; }
      else rows.push({ sign: "", a: ++a, b: ++b, text });
    }
  }
  if (!added && !removed) return h("p", { class: "dim" }, "No difference.");
  const near = rows.map(() => false);
  rows.forEach((row, i) => {
    if (row.sign) for (let j = Math.max(0, i - 3); j <= Math.min(rows.length - 1, i + 3); ++j) near[j] = true;
  });
  const body = h("tbody", {});
  const line = (row) => h("tr", { class: row.sign === "+" ? "added" : row.sign ? "removed" : null },
    h("td", { class: "at" }, row.a), h("td", { class: "at" }, row.b),
    h("td", { class: "sign" }, row.sign || " "), h("td", {}, h("code", {}, row.text || " ")));
  for (let i = 0; i < rows.length;) {
    if (near[i]) { body.append(line(rows[i++])); continue; }
    let end = i;
    while (end < rows.length && !near[end]) ++end;
    const fold = rows.slice(i, end);
    const at = h("tr", { class: "fold" }, h("td", { colspan: "4" }, h("button", { type: "button",
      class: "quiet", onclick: () => at.replaceWith(...fold.map(line)) }, `show ${fold.length} equal lines`)));
    body.append(at);
    i = end;
  }
  return h("div", {}, h("p", { class: "dim" }, `${added} lines added, ${removed} removed`),
    h("div", { class: "scroll code", tabindex: "0", role: "region", "aria-label": label },
      h("table", { class: "diff" }, h("thead", { class: "hidden" }, h("tr", {},
        ["line before", "line after", "change", "text"].map((t) => h("th", { scope: "col" }, t)))), body)));
}

// Panels of which one is shown; arrow keys move between the tabs.
function tabs(label, entries) {
  const panel = h("div", { role: "tabpanel", class: "panel", tabindex: "-1" });
  const list = h("div", { role: "tablist", "aria-label": label, class: "tabs" });
  const buttons = entries.map(([name, make], at) => h("button", { type: "button", role: "tab",
    "aria-selected": "false", tabindex: "-1", onclick: () => select(at) }, name));
  async function select(at, focus) {
    buttons.forEach((b, i) => {
      b.setAttribute("aria-selected", String(i === at));
      b.setAttribute("tabindex", i === at ? "0" : "-1");
    });
    if (focus) buttons[at].focus();
    panel.setAttribute("aria-label", entries[at][0]);
    panel.replaceChildren(h("p", { class: "dim" }, "Reading…"));
    let made;
    try { made = await entries[at][1](); } catch (error) {
      made = h("p", { class: "bad" }, "This part cannot be read: " + error.message);
    }
    if (buttons[at].getAttribute("aria-selected") === "true") panel.replaceChildren(made);
  }
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    select((at + step + buttons.length) % buttons.length, true);
  });
  list.append(...buttons);
  select(0);
  return h("div", {}, list, panel);
}

const facts = (rows) => h("dl", { class: "facts" }, rows.filter(([, value]) => value !== "" && value !== null &&
  value !== undefined).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function conversation(call) {
  if (!call) return h("p", { class: "dim" }, "This report was made without prompts and replies.");
  const author = { system: "System", user: "Prompt", assistant: "Assistant" };
  return h("section", { class: "talk" },
    h("h4", {}, `${words(call.role)} request to ${call.model}`),
    h("p", { class: "dim" }, call.status === "answered"
      ? `${count(call.prompt)} prompt tokens (${count(call.cached)} cached), ${count(call.completion)} completion (${count(call.reasoning)} reasoning)${call.estimated ? ", counted by grove" : ""}, ${(call.latency_ms / 1000).toFixed(1)} s`
      : `${call.status}${call.error ? ": " + call.error : ""}`),
    call.messages.map(([who, text]) => h("details", { open: who !== "system" && text.length < 4000 },
      h("summary", {}, `${author[who] || who} (${count(text.length)} characters)`),
      h("pre", { class: "prose", tabindex: "0" }, text))),
    h("details", { open: true }, h("summary", {}, `Reply (${count(call.reply.length)} characters)`),
      h("pre", { class: "prose", tabindex: "0" }, call.reply || "none")));
}

function payload(v) {
  if (v.element === undefined) return null;
  return facts([["worst element", `${v.tensor}[${v.element}]`], ["expected", v.expected], ["got", v.got],
    ["error", v.error], ["allowed", v.tolerance], ["input seed", v.input_seed]]);
}

async function kernelView(run, source, name) {
  const c = run.byName.get(name);
  if (!c) return h("section", { class: "card" }, h("h2", {}, "Unknown kernel " + name),
    h("p", {}, h("a", { href: "#/kernels" }, "The kernels of this run")));
  const page = await source.kernel(c);
  const parent = c.parentRow, idea = c.ideaRow;
  const siblings = idea ? idea.candidates.filter((other) => other !== c) : [];
  const head = h("section", { class: "card" },
    h("h2", {}, c.name, " ", chip(c.verdict), " ", c === run.bestRow ? h("span", { class: "chip best-chip" }, "best") : null),
    c.score ? h("p", { class: "big" }, `${time(c.score)} ${c.kind}`,
      c.over_seed && c !== run.seedRow ? h("span", {}, `${ratio(c.over_seed)} the seed`) : null,
      c.over_parent && parent !== run.seedRow ? h("span", {}, `${ratio(c.over_parent)} its parent`) : null) : null,
    page.verdict && page.verdict.kind !== "pass" ? h("div", { class: "verdict" },
      h("p", {}, h("strong", {}, words(page.verdict.kind)), ` at ${page.verdict.stage}`,
        page.verdict.case ? `, case ${page.verdict.case}` : "", ": ", h("span", { class: "dim" }, page.verdict.about)),
      h("pre", { class: "prose" }, page.verdict.message || "no message"), payload(page.verdict)) : null,
    facts([
      ["parent", parent ? h("span", {}, kernelLink(parent.name), parent.score ? ` ${time(parent.score)} ${parent.kind}` : "") : ""],
      ["siblings", siblings.length ? siblings.map((o, i) => [i ? ", " : "", kernelLink(o.name), ` ${o.score ? time(o.score) : words(o.verdict) || "waiting"}`]) : ""],
      ["children", c.children.length ? c.children.flatMap((i) => i.candidates).slice(0, 40).map((o, i) => [i ? ", " : "", kernelLink(o.name)]) : ""],
      ["frontier", (c.frontier || []).map((f) => `${f.kind}, place ${f.place} of round ${f.round}: ${f.why}`).join("; ")],
      ["class reached", c.class || ""], ["repair turns", c.turn || ""],
      ["tokens spent by then", c.tokens ? count(c.tokens) : ""]]),
    h("p", {}, h("a", { href: "#/tree", onclick: () => {
      for (let at = c; at; at = at.parentRow) { tree.open.add(at.name); if (at.ideaRow) tree.open.add(at.ideaRow.name); }
      tree.started = true; tree.chosen = c.name;
    } }, "Show it in the tree")));
  const about = idea ? h("section", { class: "card" }, h("h3", {}, `Idea ${idea.name}: ${idea.title}`),
    h("p", { class: "dim" }, `${idea.category}; ${idea.credit.ok} of ${idea.credit.n} implementations correct` +
      (idea.expected ? `; the model expected ${ratio(idea.expected)}` : "")),
    h("p", { class: "rationale" }, idea.rationale || "No rationale was given.")) : null;

  const entries = [["Source", () => codeBlock(page.source, "cpp", "Source of " + c.name)],
    ["Plan", () => codeBlock(pretty(page.plan), "json", "Launch plan of " + c.name)]];
  const compare = async (other) => {
    const theirs = await source.kernel(other);
    return h("div", {}, h("h4", {}, `Source: ${other.name} to ${c.name}`),
      diffBlock(theirs.source, page.source, "Difference of sources"),
      h("h4", {}, "Launch plan"), diffBlock(pretty(theirs.plan), pretty(page.plan), "Difference of plans"),
      h("h4", {}, "Numbers"), table(["", other.name, c.name], [
        ["verdict", words(other.verdict) || "-", words(c.verdict) || "-"],
        ["time", time(other.score) + " " + (other.kind || ""), time(c.score) + " " + (c.kind || "")],
        ["gain", "", other.score && c.score && other.kind === c.kind ? ratio(other.score / c.score) : "-"],
        ...["registers", "static shared bytes"].map((what, i) => [what,
          ...[theirs, page].map((p) => (p.kernels || []).map((k) => `${k[0]} ${count(k[i ? 5 : 2])}`).filter((t, j, all) => all.indexOf(t) === j).join(", ") || "-")]),
      ], { label: "Numbers of both" }));
  };
  if (parent) {
    entries.unshift(["Difference", async () => {
      const where = h("div", {}, await compare(parent));
      const input = h("input", { type: "text", "aria-label": "Compare with kernel", placeholder: parent.name, size: "14" });
      const form = h("form", { class: "inline", onsubmit: async (event) => {
        event.preventDefault();
        const other = run.byName.get(input.value.trim() || parent.name);
        where.replaceChildren(other ? await compare(other) : h("p", { class: "bad" }, `no kernel ${input.value}`));
      } }, h("label", {}, "Against ", input), h("button", { type: "submit" }, "Compare"));
      return h("div", {}, form, where);
    }]);
    [entries[0], entries[1]] = [entries[1], entries[0]];
  }
  if (page.attempts) {
    entries.push([`Attempts (${page.attempts.length})`, () => h("div", {}, page.attempts.map((attempt) => h("section", {},
      h("h4", {}, `Turn ${attempt.turn}: ${words(attempt.verdict.kind)} at ${attempt.verdict.stage}`),
      h("pre", { class: "prose" }, attempt.verdict.message), payload(attempt.verdict),
      h("details", {}, h("summary", {}, "Its program"), codeBlock(attempt.source, "cpp", "Source of this attempt")))))]);
  }
  if (page.calls || (idea && idea.call)) {
    entries.push(["Prompt and reply", async () => {
      const talks = [];
      for (const id of page.calls || []) talks.push(conversation(await source.call(id)));
      if (idea && idea.call) talks.push(h("h3", {}, "Where the idea came from"), conversation(await source.call(idea.call)));
      return h("div", {}, talks);
    }]);
  }
  return h("div", {}, head, about, await numbers(run, source, c, page),
    h("section", { class: "card" }, h("h3", { class: "hidden" }, "Program"), tabs("Program", entries)));
}

async function numbers(run, source, c, page) {
  const out = h("div", {});
  if (page.cases) {
    const part = (floor, t) => (floor > 0 && t > 0 ? share(floor / t) : "-");
    out.append(h("section", { class: "card" }, h("h3", {}, "Cases"), table(
      ["case", "mode", "time", "between", "class floor", "of it", "impossible-floor", "of it (SOL)", "bound", "DRAM", "occupancy", "limited by", "rechecked"],
      page.cases.map((t) => [t.case, t.mode, `${time(t.time)} ${t.kind}`,
        t.low && t.high ? `${time(t.low)} – ${time(t.high)}` + (t.dropped ? `, ${t.dropped} dropped` : "") : "-",
        t.class_floor ? time(t.class_floor) : "-", part(t.class_floor, t.time), t.floor ? time(t.floor) : "-",
        part(t.floor, t.time), t.bound || "-", t.dram_bytes ? bytes(t.dram_bytes) : "-",
        t.occupancy ? share(t.occupancy) : "-", t.limiter || "-",
        t.checked ? share(t.checked) + (t.note ? ` (${t.note})` : "") : t.note || "-"]), { label: "Times per case", class: "numbers" })));
  }
  if (page.samples) {
    const rows = [];
    const parents = c.parentRow && c.parentRow.score ? (await source.kernel(c.parentRow)).samples || [] : [];
    for (const [name, mode, times] of page.samples) {
      const base = d3.median(times);
      rows.push({ name: `${name} ${mode}`, note: `${time(base)}, ${times.length} samples`, times, base });
      const same = parents.find(([n, m]) => n === name && m === mode);
      if (same) rows.push({ name: `parent ${name}`, note: `${time(d3.median(same[2]))}, ${same[2].length} samples`,
        times: same[2], base, parent: true });
    }
    out.append(figure("Timing samples", stripPlot(rows), () => table(["strip", "samples", "least", "median", "most", "all, in order (us)"],
      rows.map((row) => [row.name, row.times.length, time(d3.min(row.times)), time(d3.median(row.times)), time(d3.max(row.times)),
        row.times.map((t) => (t / 1000).toFixed(3)).join(" ")]), { label: "Timing samples" }),
      "Every execution that was kept, as a multiple of this kernel's median; the line is the median."));
  } else if (c.score && c.kind === "modelled") {
    out.append(h("p", { class: "dim pad" }, "No samples: this time is the model's, nothing was executed against a clock."));
  }
  if (page.contests) {
    out.append(h("section", { class: "card" }, h("h3", {}, "Measured side by side"), table(
      ["challenger", "incumbent", "outcome", "challenger's time", "between", "why"],
      page.contests.map(([challenger, incumbent, outcome, promoted, kind, r, low, high, why]) => [
        kernelLink(challenger), kernelLink(incumbent), words(outcome) + (promoted ? ", promoted" : ""),
        r.toFixed(3) + "x the incumbent's, " + kind, `${low.toFixed(3)} – ${high.toFixed(3)}`, why]),
      { label: "Contests" })));
  }
  const more = [];
  if (page.profile || page.profile_report) more.push(lazyDetails("Profile", () =>
    h("pre", { class: "prose" }, [page.profile, page.profile_report].filter(Boolean).join("\n\n"))));
  if (page.launches) more.push(lazyDetails("Launches of the plan", () => table(
    ["kernel", "case", "launches", "time together", "bound by", "traffic", "occupancy"],
    page.launches.map(([entry, where, n, t, bound, traffic, warps]) => [entry, where, n, t > 0 ? time(t) : "-",
      bound || "-", traffic > 0 ? bytes(traffic) : "-", warps > 0 ? share(warps) : "-"]), { label: "Launches" })));
  if (page.kernels) more.push(lazyDetails("Compiled kernels", () => table(
    ["entry", "case", "registers", "spill stores", "spill loads", "static shared", "dynamic shared", "stack"],
    page.kernels.map((k) => [k[0], k[1], k[2], ...k.slice(3).map(bytes)]), { label: "Compiled kernels" })));
  if (page.stages) more.push(lazyDetails("Stages of the evaluation", () => table(["stage", "case", "verdict", "took", "error", "allowed"],
    page.stages.map(([stage, where, verdict, ms, error, allowed]) => [stage, where || "-", words(verdict), time(ms * 1e6),
      allowed > 0 ? (error === null ? "not finite" : error.toExponential(2)) : "-", allowed > 0 ? allowed.toExponential(2) : "-"]), { label: "Stages" })));
  more.push(lazyDetails("Environment", () => environmentTable(run)));
  out.append(h("section", { class: "card" }, more));
  return out;
}
