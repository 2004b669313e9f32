// A run that is being written: growth arrives as it happens, hints and the stop go the other way.

function follow() {
  const status = document.getElementById("run-status");
  let wanted = false, busy = false;
  const refresh = async () => {
    if (busy) { wanted = true; return; }
    busy = true;
    try {
      do {
        wanted = false;
        const before = run.candidates.length;
        run = link(await source.summary());
        header();
        const { view } = route();
        const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
        // A kernel's page does not change under the reader, and nobody's typing is interrupted.
        if (view !== "kernel" && !typing) await draw(true);
        if (run.candidates.length !== before) say(`${count(run.candidates.length)} kernels`);
      } while (wanted);
    } catch (error) { say("Waiting for grove serve: " + error.message); }
    busy = false;
  };
  const events = new EventSource("/" + source.api + "/events");
  events.addEventListener("changed", refresh);
  events.onerror = () => { status.title = "no connection to grove serve; trying again"; };
  events.onopen = () => { status.title = ""; };
}

// What changes a run needs the token that `grove serve` printed; the page got it in its address.
const token = () => new URLSearchParams(location.search).get("token") || "";

async function send(path, body) {
  const reply = await fetch("/" + source.api + path, { method: "POST", cache: "no-store",
    headers: { "Content-Type": "application/json", "X-Grove-Token": token() }, body: JSON.stringify(body) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(text.trim() || reply.statusText);
  return text;
}

function hintsCard(run, source) {
  const card = h("section", { class: "card" }, h("h2", {}, "Hints"));
  if (source.live && run.run.live) {
    const text = h("textarea", { id: "hint-text", "aria-label": "A hint or goal for the search",
      placeholder: "A hint for the next ideas, or a goal such as: case n512 below 500 us" });
    const kind = h("select", { id: "hint-kind", "aria-label": "Kind" },
      ["hint", "goal"].map((name) => h("option", {}, name)));
    const act = async (what) => { try { say(await what()); } catch (error) { say(error.message); } };
    const form = h("form", { class: "hint-form", onsubmit: (event) => {
      event.preventDefault();
      if (text.value.trim()) act(async () => { const said = await send("/control", { kind: kind.value, text: text.value }); text.value = ""; return said; });
    } }, text, h("div", { class: "inline" }, kind, h("button", { type: "submit", id: "hint-send" }, "Send"),
      h("button", { type: "button", onclick: () => act(() => send("/control", { kind: "pause" })) }, "Pause"),
      h("button", { type: "button", onclick: () => act(() => send("/control", { kind: "continue" })) }, "Continue"),
      h("button", { type: "button", id: "stop", onclick: () => {
        if (confirm("Stop the run? It can be resumed.")) act(() => send("/control", { kind: "stop" }));
      } }, "Stop the run"), token() ? null : h("span", { class: "dim" }, "Read only: open the address with the token that grove serve printed.")));
    if (!token()) for (const control of form.elements) control.disabled = true;
    card.append(form);
  }
  card.append(hintTable(run));
  return card;
}
