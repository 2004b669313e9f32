// The other views: overview, list of kernels, log, environment.

function lazyDetails(title, make) {
  const body = h("div", {});
  const details = h("details", { class: "as-table" }, h("summary", {}, title), body);
  details.addEventListener("toggle", () => {
    if (details.open) body.replaceChildren(make()); else body.replaceChildren();
  });
  return details;
}

const environmentTable = (run) => table(["what", "value"], run.environment.concat([
  ["grove", run.run.program_version], ["search seed", run.run.seed]]), { label: "Environment" });

function filterBar(run, changed) {
  const choice = (label, key, options) => h("label", {}, label, " ", h("select", {
    onchange: (event) => { filter[key] = event.target.value; changed(); } },
    options.map(([value, text]) => {
      const option = h("option", {}, text);
      option.value = value;
      option.selected = filter[key] === value;
      return option;
    })));
  let timer = 0;
  const search = h("input", { type: "search", id: "search", value: filter.text, placeholder: "idea, kernel, message",
    autocomplete: "off", oninput: (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => { filter.text = event.target.value; changed(); }, 150);
    } });
  const box = h("input", { type: "checkbox", checked: filter.frontier,
    onchange: (event) => { filter.frontier = event.target.checked; changed(); } });
  return h("search", { class: "filters card", role: "search", "aria-label": "Filter" },
    h("label", {}, "Search ", search),
    choice("Verdict", "verdict", [["", "all"], ...run.verdicts.map((v) => [v, words(v)])]),
    choice("Category", "category", [["", "all"], ...run.categories.map((v) => [v, v])]),
    choice("Round", "round", [["", "all"], ...run.rounds.map((r) => [String(r.n), String(r.n)])]),
    h("label", { class: "check" }, box, " frontier only"),
    h("button", { type: "button", class: "quiet", onclick: () => {
      Object.assign(filter, { text: "", verdict: "", category: "", round: "", frontier: false });
      changed();
    } }, "Clear"));
}

const overviewState = { over: "rounds", which: -1 };

function overview(run, source) {
  const out = h("div", {});
  const passed = run.candidates.filter((c) => c.verdict === "pass").length;
  const floors = references(run, -1);
  const best = run.bestRow;
  const tokens = d3.sum(run.spend, (r) => r.prompt + r.completion);
  out.append(h("section", { class: "tiles", "aria-label": "In numbers" },
    [["best", best ? time(best.score) : "-", best ? `${best.kind}, ${best.name}` : "nothing passed yet"],
     ["over the seed", best ? ratio(best.over_seed) : "-", run.seedRow ? `seed ${time(run.seedRow.score)}` : ""],
     // The floor of honest work of the demanded class; the impossible-floor is a line of the picture.
     ...floors.filter((l) => l.name === "class floor" && best).map((l) => ["of the class floor", share(l.time / best.score), `class floor ${time(l.time)}`]),
     ["kernels", count(run.candidates.length), `${count(passed)} pass, ${count(run.ideas.length)} ideas`],
     ["tokens", count(tokens), `${count(d3.sum(run.spend, (r) => r.calls))} requests`]]
      .map(([name, value, note]) => h("div", { class: "tile" }, h("div", { class: "dim" }, name),
        h("div", { class: "tile-value" }, value), h("div", { class: "dim" }, note)))));
  if (run.hints.length || source.live) out.append(hintsCard(run, source));

  const holder = h("div", {});
  const draw = () => {
    const others = references(run, overviewState.which).filter((l) => l.kind !== run.kind);
    const makeTable = () => {
      const points = progressPoints(run, overviewState.over, overviewState.which);
      return h("div", {}, table(["kernel", overviewState.over, "time", "best so far"],
        points.filter((p, i) => i === 0 || p.best < points[i - 1].best)
          .map((p) => [kernelLink(p.c.name), count(p.x), time(p.t), time(p.best)]), { label: "Improvements" }),
        table(["line", "time", "kind"], references(run, overviewState.which)
          .map((l) => [l.name, time(l.time), l.kind]), { label: "Lines" }));
    };
    holder.replaceChildren(figure("Best time",
      h("div", {}, controls, progressChart(run, overviewState.over, overviewState.which)), makeTable,
      run.kind === "modelled" ? "Modelled times: the emulator's, for a named GPU; they order kernels, they are not measurements." +
        (others.length ? ` Of the other kind and not drawn: ${others.map((l) => `${l.name} ${time(l.time)} ${l.kind}`).join(", ")}.` : "") :
        others.length ? `Modelled, so not drawn: ${others.map((l) => `${l.name} ${time(l.time)}`).join(", ")}.` : null));
  };
  const option = (key, value, text) => {
    const o = h("option", {}, text);
    o.value = String(value);
    o.selected = String(overviewState[key]) === String(value);
    return o;
  };
  const controls = h("div", { class: "filters" },
    h("label", {}, "Over ", h("select", { id: "over", onchange: (e) => { overviewState.over = e.target.value; draw(); } },
      option("over", "rounds", "rounds"), option("over", "tokens", "tokens"), option("over", "kernels", "kernels"))),
    run.scored.length > 1 ? h("label", {}, "Case ", h("select", { onchange: (e) => { overviewState.which = +e.target.value; draw(); } },
      option("which", -1, "all (geometric mean)"), run.scored.map((name, i) => option("which", i, name)))) : null);
  draw();
  out.append(holder);

  const tally = d3.nest().key((c) => c.verdict || "waiting").entries(run.candidates)
    .sort((a, b) => b.values.length - a.values.length);
  out.append(figure("Verdicts", bars(tally.map((t) => ({ name: words(t.key), label: count(t.values.length),
    href: "#/kernels?verdict=" + encodeURIComponent(t.key),
    parts: [{ name: words(t.key), value: t.values.length, class: "v-" + groupOf(t.key === "waiting" ? "" : t.key) }] })),
    "Verdicts"), () => table(["verdict", "stage", "kernels"], d3.nest().key((c) => c.verdict || "waiting").key((c) => c.stage || "-")
    .entries(run.candidates).flatMap((v) => v.values.map((st) => [words(v.key), st.key, count(st.values.length)])), { label: "Verdicts by stage" })));

  const spendRows = d3.nest().key((r) => r.role).entries(run.spend);
  const dollars = d3.sum(run.spend, (r) => r.dollars);
  const models = [...new Set(run.spend.map((r) => r.model))];
  out.append(figure("Spend by role and model", h("div", {},
    run.spend.length ? bars(run.spend.map((r) => ({ name: `${r.role}, ${r.model}`,
      label: count(r.prompt + r.completion) + (r.dollars ? ` ($${r.dollars.toFixed(2)})` : ""),
      parts: [{ name: "cached prompt", value: r.cached, class: "p-cached" },
        { name: "prompt", value: r.prompt - r.cached, class: "p-prompt" },
        { name: "reasoning", value: r.reasoning, class: "p-reasoning" },
        { name: "reply", value: r.completion - r.reasoning, class: "p-reply" }] })), "Tokens") : h("p", { class: "dim" }, "No model was asked."),
    h("p", { class: "legend" }, [["p-prompt", "prompt"], ["p-cached", "cached prompt"], ["p-reasoning", "reasoning"], ["p-reply", "reply"]]
      .map(([c, t]) => h("span", {}, h("span", { class: "swatch " + c }), t)))),
    () => table(["role", "model", "requests", "failed", "prompt", "cached", "completion", "reasoning", "dollars", "mean wait"],
      run.spend.map((r) => [r.role, r.model, count(r.calls), count(r.failed), count(r.prompt), count(r.cached), count(r.completion),
        count(r.reasoning), r.dollars ? r.dollars.toFixed(4) : "-", r.calls ? (r.latency_ms / r.calls / 1000).toFixed(1) + " s" : "-"]),
      { label: "Spend" }),
    `${count(tokens)} tokens by ${models.length} model${models.length === 1 ? "" : "s"} in ${spendRows.length} roles` +
      (dollars ? `, $${dollars.toFixed(2)}` : "")));
  if (run.ledger.length) {
    out.append(h("section", { class: "card" }, h("h2", {}, "Ledger"), table(["what", "spent", "promised"],
      run.ledger.map((r) => [words(r.kind), r.kind === "dollars" ? r.spent.toFixed(4) : count(r.spent),
        r.kind === "dollars" ? r.promised.toFixed(4) : count(r.promised)]), { label: "Ledger" })));
  }
  const kinds = d3.nest().key((i) => i.category || "none").entries(run.ideas).map(({ key, values }) => {
    const all = values.flatMap((i) => i.candidates);
    const scored = all.filter((c) => c.score && c.kind === run.kind);
    // Of those that tell something: no duplicates, and none that nobody has evaluated.
    return { key, ideas: values.length, kernels: all.length, n: d3.sum(values, (i) => i.credit.n),
      ok: d3.sum(values, (i) => i.credit.ok),
      gain: d3.max(scored, (c) => c.over_parent), best: d3.min(scored, (c) => c.score) };
  }).sort((a, b) => (b.gain || 0) - (a.gain || 0));
  out.append(h("section", { class: "card" }, h("h2", {}, "What kinds of idea paid"), table(
    ["category", "ideas", "kernels", "correct", "best time", "best gain over a parent"],
    kinds.map((k) => [h("a", { href: "#/tree?category=" + encodeURIComponent(k.key) }, k.key), count(k.ideas), count(k.kernels),
      k.n ? share(k.ok / k.n) : "-", time(k.best), ratio(k.gain)]), { label: "Categories" })));
  return out;
}

const listState = { key: "score", down: false, most: 100 };

function kernelList(run, redraw) {
  const columns = [
    ["kernel", (c) => c.name, (c) => kernelLink(c.name), "name"],
    ["idea", (c) => (c.ideaRow ? c.ideaRow.title : ""), null, "idea"],
    ["category", (c) => (c.ideaRow ? c.ideaRow.category : ""), null, "category"],
    ["round", (c) => c.round, (c) => (c.round < 0 ? "-" : c.round), "round"],
    ["verdict", (c) => c.verdict || "waiting", (c) => chip(c.verdict), "verdict"],
    ["time", (c) => c.score ?? Infinity, (c) => time(c.score), "score"],
    ["over seed", (c) => c.over_seed ?? -1, (c) => ratio(c.over_seed), "over_seed"],
    ["over parent", (c) => c.over_parent ?? -1, (c) => ratio(c.over_parent), "over_parent"],
    ["frontier", (c) => frontierWords(c), null, "frontier"],
  ];
  const column = columns.find((c) => c[3] === listState.key);
  const rows = run.candidates.filter(matches).sort((a, b) => {
    const x = column[1](a), y = column[1](b);
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (listState.down ? -order : order) || a.at - b.at;
  });
  const head = columns.map(([name, , , key]) => h("button", { type: "button", class: "sort", onclick: () => {
    listState.down = listState.key === key ? !listState.down : key.startsWith("over");
    listState.key = key;
    redraw();
  } }, name + (listState.key === key ? (listState.down ? " ▼" : " ▲") : "")));
  const list = table(head, rows.slice(0, listState.most).map((c) => columns.map((col) => (col[2] || col[1])(c))),
    { label: "Kernels", class: "list" });
  list.querySelectorAll("th").forEach((th, i) => th.setAttribute("aria-sort",
    columns[i][3] !== listState.key ? "none" : listState.down ? "descending" : "ascending"));
  return h("div", {}, filterBar(run, redraw), h("section", { class: "card" },
    h("h2", { class: "hidden" }, "Kernels"),
    h("p", { class: "dim", role: "status", "aria-live": "polite" }, `${count(rows.length)} of ${count(run.candidates.length)} kernels match`), list,
    rows.length > listState.most ? h("button", { type: "button", onclick: () => { listState.most += 500; redraw(); } },
      `Show more (${count(rows.length - listState.most)} left)`) : null));
}

function logView(run) {
  return h("div", {},
    h("section", { class: "card" }, h("h2", {}, "Rounds"), table(["round", "status", "began", "took", "kernels", "pass", "best"],
      run.rounds.map((r) => {
        const all = run.candidates.filter((c) => c.round === r.n);
        const scored = all.filter((c) => c.score && c.kind === run.kind);
        return [r.n, r.status, moment(r.started_us), r.finished_us ? ((r.finished_us - r.started_us) / 1e6).toFixed(1) + " s" : "-",
          count(all.length), count(all.filter((c) => c.verdict === "pass").length), time(d3.min(scored, (c) => c.score))];
      }), { label: "Rounds" })),
    h("section", { class: "card" }, h("h2", {}, "Events"), run.events.length
      ? table(["when", "kind", "what"], run.events.map(([us, kind, text]) => [moment(us), kind, text]), { label: "Events" })
      : h("p", { class: "dim" }, "None.")),
    h("section", { class: "card" }, h("h2", {}, "Hints"), hintTable(run)));
}

const hintTable = (run) => run.hints.length
  ? table(["when", "kind", "text", "used in round", "answer"], run.hints.map((x) =>
      [moment(x.at_us), x.kind, x.text, x.round ?? "not yet", x.answer || "-"]), { label: "Hints" })
  : h("p", { class: "dim" }, "None.");

function environmentView(run) {
  return h("div", {},
    h("section", { class: "card" }, h("h2", {}, "Environment"), environmentTable(run)),
    h("section", { class: "card" }, h("h2", {}, "Task"), facts([["task", run.run.task], ["title", run.run.title], ["class demanded", run.run.demanded]]),
      table(["case", "role", "dims", "FLOP", "least traffic"], run.cases.map((c) => [c.name, c.role, c.dims,
        c.flops === null ? "-" : d3.format(".3~s")(c.flops), bytes(c.min_bytes)]), { label: "Cases" })),
    run.baselines.length ? h("section", { class: "card" }, h("h2", {}, "Baselines"), table(["case", "baseline", "time", "kind"],
      run.baselines.map((b) => [b.case, b.name, time(b.time), b.kind]), { label: "Baselines" })) : null,
    h("section", { class: "card" }, h("h2", {}, "Configuration"), codeBlock(pretty(run.run.config), "json", "Configuration")),
    h("section", { class: "card" }, h("h2", {}, "This page"), h("p", {}, "Made by grove " + run.run.program_version +
      ". It contains d3, Prism and diff; their licences:"),
      lazyDetails("Licences", () => h("pre", { class: "prose" }, document.getElementById("licences").textContent))));
}
