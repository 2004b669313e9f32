// Pictures made with d3's scales and axes. Each returns an element; texts are set by d3's .text().

function axes(svg, x, y, size, labels) {
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${size.bottom})`)
    .call(labels.xAxis(d3.axisBottom(x)));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${size.left},0)`)
    .call(labels.yAxis(d3.axisLeft(y)));
  svg.append("text").attr("class", "axis-name").attr("x", size.right).attr("y", size.bottom + 34)
    .attr("text-anchor", "end").text(labels.x);
  svg.append("text").attr("class", "axis-name").attr("x", 4).attr("y", 12).text(labels.y);
}

const widthOf = (most) => Math.max(300, Math.min(most, document.getElementById("main").clientWidth - 34));

// What a case of the run, or its score, took.
const timeFor = (run, c, which) =>
  which < 0 || run.scored.length < 2 ? c.score : c.times ? c.times[which] : null;

// The lines that a time is to be seen against: seed, floors and baselines of the same kind.
function references(run, which) {
  const lines = [];
  const floors = run.floors[run.kind];
  const at = which < 0 && run.scored.length === 1 ? 0 : which;
  const impossible = at < 0 ? floors.impossible : floors.cases[at] && floors.cases[at][0];
  const honest = at < 0 ? floors.class : floors.cases[at] && floors.cases[at][1];
  if (run.seedRow && run.seedRow.score && run.seedRow.kind === run.kind) {
    lines.push({ name: "seed", time: timeFor(run, run.seedRow, which), kind: run.kind });
  }
  const names = [...new Set(run.baselines.map((b) => b.name))];
  for (const name of names) {
    if (lines.some((line) => line.name === name)) continue;  // the seed, that the run measured itself
    const rows = run.baselines.filter((b) => b.name === name &&
      (at < 0 ? run.scored.includes(b.case) : b.case === run.scored[at]));
    if (!rows.length || (at < 0 && rows.length < run.scored.length)) continue;
    const mean = Math.exp(d3.mean(rows, (b) => Math.log(b.time)));
    lines.push({ name, time: mean, kind: rows[0].kind });
  }
  if (honest) lines.push({ name: "class floor", time: honest, kind: run.kind, floor: true });
  if (impossible) lines.push({ name: "impossible-floor", time: impossible, kind: run.kind, floor: true });
  return lines.filter((line) => line.time > 0);
}

function progressPoints(run, over, which) {
  const points = [];
  for (const c of run.candidates) {
    const t = c.kind === run.kind ? timeFor(run, c, which) : null;
    if (!(t > 0)) continue;
    points.push({ c, t, x: over === "tokens" ? c.tokens : over === "kernels" ? c.at : Math.max(0, c.round) });
  }
  points.sort((a, b) => a.x - b.x || a.c.at - b.c.at);
  let best = Infinity;
  for (const p of points) { best = Math.min(best, p.t); p.best = best; }
  return points;
}

function progressChart(run, over, which) {
  const points = progressPoints(run, over, which);
  if (!points.length) return h("p", { class: "dim" }, "No kernel has passed yet.");
  // Modelled and measured times are never compared: lines of the other kind stay in the table.
  const lines = references(run, which).filter((l) => l.kind === run.kind);
  const width = widthOf(1130), height = 340, narrow = width < 560;
  const size = { left: 62, right: width - (narrow ? 34 : 12), top: 22, bottom: height - 44 };
  const svg = d3.select(s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img",
    "aria-label": `Best time over ${over}; the table below says the same` }));
  const last = over === "rounds" ? Math.max(1, ...run.rounds.map((r) => r.n)) :
    Math.max(1, points[points.length - 1].x);
  const x = d3.scaleLinear().domain(over === "rounds" ? [-0.15, last + 0.3] : [0, last * 1.03]).range([size.left, size.right]);
  const all = points.map((p) => p.t).concat(lines.map((l) => l.time));
  const y = d3.scaleLog().domain([d3.min(all) / 1.15, d3.max(all) * 1.15]).range([size.bottom, size.top]);
  const step = d3.max(all) / d3.min(all) > 30 ? 3 : 6;
  axes(svg, x, y, size, {
    x: over === "tokens" ? "tokens spent" : over === "kernels" ? "kernels, as they were asked for" : "round",
    y: "time" + (run.kind === "modelled" ? ", modelled" : ""),
    xAxis: (axis) => over === "rounds"
      ? axis.tickValues(d3.range(0, last + 1, Math.max(1, Math.ceil(last / 12)))).tickFormat(d3.format("d"))
      : axis.ticks(5, "~s"),
    yAxis: (axis) => axis.ticks(step).tickFormat((t) => {
      const lead = t / 10 ** Math.floor(Math.log10(t) + 1e-9);
      return [1, 2, 5].some((n) => Math.abs(lead - n) < 1e-6) ? time(t).replace(/\.0+ /, " ") : "";
    }),
  });
  const labels = lines.map((l) => ({ ...l, y: y(l.time) })).sort((a, b) => a.y - b.y);
  for (const l of labels) {
    svg.append("line").attr("class", "reference" + (l.floor ? " floor" : ""))
      .attr("x1", size.left).attr("x2", size.right).attr("y1", l.y).attr("y2", l.y);
  }
  const jitter = (p) => over === "rounds" ? x(p.x) + ((p.c.at * 0.61803) % 1 - 0.5) * 14 : x(p.x);
  svg.append("path").attr("class", "dots")
    .attr("d", points.map((p) => `M${jitter(p).toFixed(1)},${y(p.t).toFixed(1)}h0`).join(""));
  const line = d3.line().x((p) => x(p.x)).y((p) => y(p.best)).curve(d3.curveStepAfter);
  const corners = points.filter((p, i) => i === 0 || i === points.length - 1 || p.best < points[i - 1].best);
  svg.append("path").attr("class", "best").attr("d", line(corners.concat([{ x: x.domain()[1], best: points[points.length - 1].best }])));
  if (narrow) numberLines(svg, labels, size);
  else nameLines(svg, labels, size);
  const near = d3.quadtree().x(jitter).y((p) => y(p.t)).addAll(points);
  const mark = svg.append("circle").attr("class", "mark").attr("r", 5).attr("visibility", "hidden");
  const find = (event) => {
    const [mx, my] = pointer(svg.node(), event, width);
    return near.find(mx, my, 24);
  };
  svg.node().addEventListener("mousemove", (event) => {
    const p = find(event);
    if (!p) { tip.hide(); mark.attr("visibility", "hidden"); return; }
    mark.attr("visibility", null).attr("cx", jitter(p)).attr("cy", y(p.t));
    tip.show(event.clientX, event.clientY, [
      `${p.c.name}: ${time(p.t)} ${run.kind}`,
      p.c.ideaRow ? cut(p.c.ideaRow.title, 60) : "the task's own seed",
      `${ratio(p.c.over_seed)} the seed, ${count(p.c.tokens)} tokens spent`]);
  });
  svg.node().addEventListener("mouseleave", () => { tip.hide(); mark.attr("visibility", "hidden"); });
  svg.node().addEventListener("click", (event) => {
    const p = find(event);
    if (p) location.hash = "#/kernel/" + encodeURIComponent(p.c.name);
  });
  if (!narrow) return svg.node();
  return h("div", {}, svg.node(), h("ol", { class: "line-names", "aria-label": "Lines, from the top" },
    labels.map((l) => h("li", {}, `${l.name} ${time(l.time)}`))));
}

// Names at the right end, over the line of the best, which often lies just above a floor. Lines that lie close
// push each other's names down, and those at the bottom up again.
function nameLines(svg, labels, size) {
  const at = [];
  labels.forEach((l, i) => at.push(Math.max(l.y - 4, i > 0 ? at[i - 1] + 13 : size.top + 7)));
  for (let i = at.length - 1, most = size.bottom - 3; i >= 0 && at[i] > most; --i, most -= 13) at[i] = most;
  labels.forEach((l, i) => svg.append("text").attr("class", "reference-name").attr("x", size.right).attr("y", at[i])
    .attr("text-anchor", "end").text(l.name + " " + time(l.time)));
}

// A narrow picture has no room for names: numbers beside it, one text for lines that lie close, names in a list.
function numberLines(svg, labels, size) {
  for (let first = 0; first < labels.length;) {
    let last = first;
    while (last + 1 < labels.length && labels[last + 1].y - labels[last].y < 13) ++last;
    svg.append("text").attr("class", "reference-name").attr("x", size.right + 4)
      .attr("y", (labels[first].y + labels[last].y) / 2 + 4)
      .text(first === last ? first + 1 : `${first + 1}-${last + 1}`);
    first = last + 1;
  }
}

// Where an event is in the coordinates of a picture's view box.
function pointer(svg, event, width) {
  const box = svg.getBoundingClientRect();
  const scale = width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

// Horizontal bars of parts; `rows`: {name, parts: [{name, value, class}], label, href}.
function bars(rows, label) {
  const most = Math.max(1e-9, ...rows.map((row) => d3.sum(row.parts, (p) => p.value)));
  return h("div", { class: "bars", role: "img", "aria-label": label + "; the table below says the same" },
    rows.map((row) => h(row.href ? "a" : "div", { class: "bar-row", href: row.href },
      h("span", { class: "bar-name" }, row.name),
      h("span", { class: "bar-track" }, row.parts.filter((p) => p.value > 0).map((p) => {
        const part = h("span", { class: "bar " + p.class, title: `${p.name}: ${count(p.value)}` });
        part.style.width = (100 * p.value) / most + "%";
        return part;
      })),
      h("span", { class: "bar-value" }, row.label))));
}

// Every timed execution: one strip per case and mode, the parent's beneath. Cases differ by orders of
// magnitude, so each strip is in shares of its `base`, this kernel's median.
function stripPlot(rows) {
  const width = widthOf(1130), rowHeight = 46;
  const names = Math.min(150, width * 0.3);
  const height = rows.length * rowHeight + 40;
  const svg = d3.select(s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img",
    "aria-label": "All timing samples; the table below says the same" }));
  const all = rows.flatMap((row) => row.times.map((t) => t / row.base));
  const x = d3.scaleLinear().domain(d3.extent(all)).nice().range([names, width - 24]);
  if (d3.min(all) === d3.max(all)) x.domain([d3.min(all) * 0.95, d3.max(all) * 1.05]);
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - 30})`)
    .call(d3.axisBottom(x).ticks(width < 500 ? 4 : 8).tickFormat((t) => d3.format(".4~g")(t) + "x"));
  rows.forEach((row, at) => {
    const top = at * rowHeight + 6;
    svg.append("text").attr("class", "strip-name").attr("x", 2).attr("y", top + 16).text(cut(row.name, 22));
    svg.append("text").attr("class", "axis-name").attr("x", 2).attr("y", top + 31).text(row.note);
    svg.append("line").attr("class", "strip-line").attr("x1", names).attr("x2", width - 14)
      .attr("y1", top + rowHeight - 6).attr("y2", top + rowHeight - 6);
    const y = (i) => top + 6 + ((i * 0.61803) % 1) * (rowHeight - 18);
    svg.append("path").attr("class", "dots" + (row.parent ? " parent" : ""))
      .attr("d", row.times.map((t, i) => `M${x(t / row.base).toFixed(1)},${y(i).toFixed(1)}h0`).join(""));
    const middle = d3.median(row.times) / row.base;
    svg.append("line").attr("class", "median").attr("x1", x(middle)).attr("x2", x(middle))
      .attr("y1", top).attr("y2", top + rowHeight - 8);
  });
  return svg.node();
}
