// The idea tree: kernels and the ideas that they gave rise to, from the seed on. d3 lays it out and
// zooms; what stands open, what is chosen and what is filtered is kept over redrawings.

const tree = {
  open: new Set(), chosen: null, started: false, most: 500,

  start(run) {
    if (this.started || !run.seedRow) return;
    this.started = true;
    for (const c of run.path) {
      this.open.add(c.name);
      if (c.ideaRow) this.open.add(c.ideaRow.name);
    }
    this.open.add(run.seedRow.name);
    this.chosen = (run.bestRow || run.seedRow).name;
  },

  // The part that is shown, as {name, row, idea, children, hidden}.
  visible(run) {
    const wanted = filtering() ? new Set() : null;
    let found = 0, cutOff = 0;
    if (wanted) {
      for (const c of run.candidates) {
        if (!matches(c)) continue;
        if (++found > this.most) { ++cutOff; continue; }
        for (let at = c; at && !wanted.has(at); at = at.parentRow) {
          wanted.add(at);
          if (at.ideaRow) wanted.add(at.ideaRow);
        }
      }
    }
    const seen = new Set();
    const node = (row, idea) => {
      if (seen.has(row)) return null;
      seen.add(row);
      const below = idea ? row.candidates : row.children;
      const shown = wanted ? below.filter((r) => wanted.has(r))
        : this.open.has(row.name) ? below : [];
      return { name: row.name, row, idea, hidden: below.length - shown.length,
               match: Boolean(wanted) && !idea && matches(row),
               children: shown.map((r) => node(r, !idea)).filter(Boolean) };
    };
    return { root: run.seedRow ? node(run.seedRow, false) : null, found, cutOff };
  },

  toggle(run, name, recursive) {
    const all = [];
    const collect = (row, idea) => {
      all.push(row.name);
      for (const r of idea ? row.candidates : row.children) collect(r, !idea);
    };
    const idea = run.ideas.find((i) => i.name === name);
    const row = idea || run.byName.get(name);
    if (!row) return;
    if (recursive) collect(row, Boolean(idea)); else all.push(name);
    const opening = !this.open.has(name);
    for (const n of all) if (opening) this.open.add(n); else this.open.delete(n);
  },
};

const describe = (node) => {
  const row = node.row;
  if (node.idea) {
    return `Idea ${row.name}, ${row.title}, ${row.category}, ${row.credit.ok} of ${row.credit.n} correct`;
  }
  return `Kernel ${row.name}, ${words(row.verdict) || "waiting"}` +
    (row.score ? `, ${time(row.score)} ${row.kind}, ${ratio(row.over_seed || 1)} the seed` : "") +
    (row.frontier ? ", on the frontier" : "");
};

function treeView(run, redraw) {
  tree.start(run);
  const box = h("div", { class: "tree-box" });
  const status = h("p", { class: "dim", role: "status", "aria-live": "polite" });
  const wide = document.getElementById("main").clientWidth > 640;
  const kernelWidth = wide ? 178 : 160, ideaWidth = wide ? 268 : 208, rowHeight = 30;
  const titleMost = wide ? 36 : 26, noteMost = wide ? 42 : 33;
  const svg = d3.select(s("svg", { class: "tree", tabindex: "0", role: "tree",
    "aria-label": "Idea tree. Arrow keys move, Enter opens a kernel, plus and minus zoom." }));
  const world = svg.append("g");
  const links = world.append("g").attr("class", "links");
  const nodes = world.append("g");
  let placed = [], height = 560;

  const zoom = d3.zoom().scaleExtent([0.08, 3]).on("zoom", () => world.attr("transform", d3.event.transform));
  svg.call(zoom).on("dblclick.zoom", null);
  const moveTo = (n, quick) => {
    const scale = d3.zoomTransform(svg.node()).k;
    const width = svg.node().clientWidth || 800;
    const to = d3.zoomIdentity.translate(width * (wide ? 0.6 : 0.3) - n.y * scale, height / 2 - n.x * scale).scale(scale);
    svg.call(zoom.transform, to);
  };
  const fit = () => {
    if (!placed.length) return;
    const [top, bottom] = d3.extent(placed, (n) => n.x), [left, right] = d3.extent(placed, (n) => n.y);
    const width = svg.node().clientWidth || 800;
    const scale = Math.min(1, (width - 40) / (right - left + ideaWidth), (height - 40) / (bottom - top + rowHeight));
    svg.call(zoom.transform, d3.zoomIdentity.translate(20 - left * scale, height / 2 - ((top + bottom) / 2) * scale).scale(Math.max(0.08, scale)));
  };

  function draw() {
    const { root, found, cutOff } = tree.visible(run);
    if (!root) { status.textContent = "The run has no seed yet."; return; }
    const layout = d3.hierarchy(root);
    d3.tree().nodeSize([rowHeight, 1]).separation((a, b) => (a.parent === b.parent ? 1 : 1.25))(layout);
    // Kernels and ideas take turns, and ideas need more room.
    layout.each((n) => { n.y = Math.ceil(n.depth / 2) * kernelWidth + Math.floor(n.depth / 2) * ideaWidth; });
    // The order in which people read it: from top to bottom, as the outline.
    const order = [];
    layout.eachBefore((n) => order.push(n));
    placed = order;
    status.textContent = filtering()
      ? `${count(found)} of ${count(run.candidates.length)} kernels match` +
        (cutOff ? `; the first ${tree.most} are drawn, narrow the filter or use the list` : "")
      : `${count(placed.length)} of ${count(run.candidates.length + run.ideas.length)} kernels and ideas are open`;
    const labelEnd = (n) => n.y + 16 + Math.max(firstLine(n.data, titleMost).length * 6.4, secondLine(n.data, noteMost).length * 5.3);
    const link_ = (n) => {
      const from = Math.min(labelEnd(n.parent), n.y - 24), to = n.y - 8, half = (from + to) / 2;
      return `M${from},${n.parent.x}C${half},${n.parent.x} ${half},${n.x} ${to},${n.x}`;
    };
    const line = links.selectAll("path").data(order.slice(1), (n) => n.data.name);
    line.exit().remove();
    line.enter().append("path").merge(line).attr("d", link_)
      .attr("class", (n) => (!n.data.idea ? run.path.has(n.data.row)
        : n.data.row.candidates.some((c) => run.path.has(c))) ? "on-path" : null);
    const join = nodes.selectAll("g.node").data(order, (n) => n.data.name);
    join.exit().remove();
    const fresh = join.enter().append("g").attr("role", "treeitem").attr("id", (n) => "node-" + n.data.name.replace(/[^\w.-]/g, "_"));
    fresh.append("circle").attr("r", 6);
    fresh.append("text").attr("class", "first").attr("x", 11).attr("y", 0);
    fresh.append("text").attr("class", "second").attr("x", 11).attr("y", 11);
    fresh.append("text").attr("class", "twist").attr("x", 0).attr("y", 3.5).attr("text-anchor", "middle");
    fresh.on("click", (n) => {
      tree.chosen = n.data.name;
      if (!filtering()) tree.toggle(run, n.data.name, d3.event.shiftKey);
      draw();
    }).on("dblclick", (n) => openNode(n))
      .on("mousemove", (n) => tip.show(d3.event.clientX, d3.event.clientY, tipLines(n.data)))
      .on("mouseleave", () => tip.hide());
    const every = fresh.merge(join);
    every.attr("transform", (n) => `translate(${n.y},${n.x})`)
      .attr("class", (n) => ["node", n.data.idea ? "idea" : "kernel v-" + groupOf(n.data.row.verdict),
        n.data.name === tree.chosen ? "chosen" : "", n.data.match ? "match" : "",
        !n.data.idea && n.data.row === run.bestRow ? "is-best" : "",
        !n.data.idea && n.data.row.frontier ? "frontier" : ""].join(" "))
      .attr("aria-label", (n) => describe(n.data))
      .attr("aria-level", (n) => n.depth + 1)
      .attr("aria-selected", (n) => String(n.data.name === tree.chosen))
      .attr("aria-expanded", (n) => (n.data.children.length ? "true" : n.data.hidden ? "false" : null));
    every.select("circle").attr("r", (n) => (n.data.idea ? 5 : 6));
    every.select(".first").text((n) => firstLine(n.data, titleMost));
    every.select(".second").text((n) => secondLine(n.data, noteMost));
    every.select(".twist").text((n) => (n.data.hidden && !n.data.children.length ? "+" : ""));
    svg.attr("aria-activedescendant", tree.chosen ? "node-" + tree.chosen.replace(/[^\w.-]/g, "_") : null);
  }

  const chosenNode = () => placed.find((n) => n.data.name === tree.chosen) || placed[0];
  const openNode = (n) => {
    if (n.data.idea) { tree.toggle(run, n.data.name); draw(); }
    else location.hash = "#/kernel/" + encodeURIComponent(n.data.name);
  };
  const choose = (n) => { if (n) { tree.chosen = n.data.name; draw(); moveTo(chosenNode()); } };
  svg.node().addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const n = chosenNode(), at = placed.indexOf(n);
    const actions = {
      ArrowDown: () => choose(placed[at + 1]),
      ArrowUp: () => choose(placed[at - 1]),
      ArrowLeft: () => {
        if (n.data.children.length && !filtering()) { tree.toggle(run, n.data.name); draw(); } else choose(n.parent);
      },
      ArrowRight: () => {
        if (n.data.hidden && !filtering()) { tree.toggle(run, n.data.name); draw(); }
        else if (n.children) choose(n.children[0]);
      },
      Home: () => choose(placed[0]),
      End: () => choose(placed[placed.length - 1]),
      Enter: () => openNode(n),
      " ": () => { if (!filtering()) { tree.toggle(run, n.data.name); draw(); } },
      "*": () => { tree.toggle(run, n.data.name, true); draw(); },
      "+": () => svg.call(zoom.scaleBy, 1.3),
      "=": () => svg.call(zoom.scaleBy, 1.3),
      "-": () => svg.call(zoom.scaleBy, 1 / 1.3),
      "0": fit,
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });

  const button = (text, label, action) =>
    h("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick: action }, text);
  const tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Tree" },
    button("+", "Zoom in", () => svg.call(zoom.scaleBy, 1.4)),
    button("−", "Zoom out", () => svg.call(zoom.scaleBy, 1 / 1.4)),
    button("Fit", "Show the whole tree", fit),
    button("Best", "Go to the best kernel", () => {
      for (const c of run.path) { tree.open.add(c.name); if (c.ideaRow) tree.open.add(c.ideaRow.name); }
      if (run.bestRow) { tree.chosen = run.bestRow.name; draw(); moveTo(chosenNode()); }
    }),
    button("Open all", "Open every idea and kernel", () => {
      for (const row of run.candidates.concat(run.ideas)) tree.open.add(row.name);
      draw(); fit();
    }),
    button("Close all", "Close all but the seed", () => {
      tree.open.clear(); tree.chosen = run.seedRow.name; draw(); moveTo(chosenNode());
    }),
    button("Open kernel", "Open the chosen kernel's page", () => openNode(chosenNode())));
  box.append(svg.node());
  draw();
  requestAnimationFrame(() => {
    height = svg.node().clientHeight || 560;
    fit();
    // A tree too large to be read whole begins at its best kernel, in full size.
    if (d3.zoomTransform(svg.node()).k < (wide ? 0.7 : 0.5) && !filtering()) {
      svg.call(zoom.transform, d3.zoomIdentity);
      moveTo(chosenNode());
    }
  });
  const outline = () => table(["node", "what", "verdict or credit", "time", "over seed", "over parent"],
    placed.map((n) => {
      const row = n.data.row;
      const indent = h("span", { class: "indent" });
      indent.style.paddingLeft = n.depth * 12 + "px";
      indent.append(n.data.idea ? row.name : kernelLink(row.name));
      return n.data.idea
        ? [indent, `${row.title} [${row.category}]`, `${row.credit.ok} of ${row.credit.n} correct`,
           row.credit.best !== undefined ? time(run.candidates[row.credit.best].score) : "-", "-", "-"]
        : [indent, frontierWords(row), words(row.verdict) || "waiting", time(row.score),
           ratio(row.over_seed), ratio(row.over_parent)];
    }), { label: "Idea tree", class: "outline" });
  const legend = h("p", { class: "legend" },
    Object.entries(groupWords).map(([group, text]) =>
      h("span", {}, h("span", { class: "swatch v-" + group }), text)),
    h("span", {}, h("span", { class: "swatch idea" }), "idea"),
    h("span", {}, h("span", { class: "swatch ring" }), "frontier or reserve"));
  return h("div", {},
    filterBar(run, () => redraw()),
    h("section", { class: "card" }, h("h2", { class: "hidden" }, "Idea tree"), tools, status, box, legend,
      h("p", { class: "dim keys" }, "Click opens and closes (with Shift all below), double click or Enter shows a kernel; arrow keys, + − 0, / to search."),
      lazyDetails("As a table", outline)));
}

const frontierWords = (row) => (row.frontier || []).map((f) =>
  `${f.kind} of round ${f.round}`).join(", ");
function firstLine(node, most) {
  const row = node.row;
  if (node.idea) return cut(row.title, most);
  return row.name + "  " + (row.score ? time(row.score) : words(row.verdict) || "waiting");
}
function secondLine(node, most = 42) {
  const row = node.row;
  if (node.idea) return cut(`${row.name} · ${row.credit.ok}/${row.credit.n} correct · ${row.category}`, most);
  const parts = [];
  if (row.over_seed && row.at !== undefined && row.parent >= 0) parts.push(ratio(row.over_seed) + " seed");
  if (row.parent < 0) parts.push("the task's seed");
  if (row.frontier) parts.push(row.frontier[row.frontier.length - 1].kind);
  if (row.verdict && !row.score && row.stage) parts.push("at " + row.stage);
  if (row.turn) parts.push(`repaired ${row.turn}x`);
  return cut(parts.join(" · "), 34);
}
function tipLines(node) {
  const row = node.row;
  if (node.idea) {
    return [`${row.name}: ${row.title}`, `${row.category}; ${row.credit.ok} of ${row.credit.n} correct`,
      cut(row.rationale, 300)];
  }
  return [`${row.name}: ${words(row.verdict) || "waiting"}`,
    row.score ? `${time(row.score)} ${row.kind}, ${ratio(row.over_seed || 1)} the seed` : row.message || "",
    frontierWords(row)].filter(Boolean);
}
