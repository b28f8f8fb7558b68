// The console's page. What it shows are fragments that the server writes, in which all text is escaped; nothing here makes
// HTML of text. The key is kept for as long as this tab lives, and sent in a header.
"use strict";

(() => {
  const KEY = "picktools-console-key";
  const PARTS = ["try", "catalog", "waiting", "live", "servers"];
  const ROWS = 200;
  const LOOK_MS = 5000;

  const byId = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Ends what is under way when the key is forgotten.
  let session = new AbortController();

  function keyOfLink() {
    const found = /^#key=(.+)$/.exec(location.hash);
    if (!found) return;
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem(KEY, found[1]);
  }

  function say(text, isBad = false) {
    const said = byId("said");
    said.textContent = text;
    said.classList.toggle("bad", isBad);
  }

  // A request of ours, with the key. What is refused for its key shows the door.
  async function ask(path, body) {
    const headers = new Headers();
    headers.set("Authorization", "Bearer " + (sessionStorage.getItem(KEY) ?? ""));
    const request = { headers, cache: "no-store", credentials: "omit", signal: session.signal };
    if (body !== undefined) {
      headers.set("Content-Type", "application/json");
      request.method = "POST";
      request.body = JSON.stringify(body);
    }
    const answer = await fetch(path, request);
    if (answer.ok) return answer;
    const why = (await answer.text()).trim() || answer.statusText;
    if (answer.status === 401 || answer.status === 403) forget(why);
    throw new Error(why);
  }

  // Says what went wrong, unless that was ended on purpose.
  function failed(error) {
    if (error.name === "AbortError") return;
    const lost = error instanceof TypeError;
    say(lost ? "The gateway cannot be reached, or the key holds characters that no key has." : error.message, true);
  }

  const nodes = (html) => [...new DOMParser().parseFromString(html, "text/html").body.childNodes];

  // Asks for a fragment, and puts it in, unless another was asked for meanwhile.
  const turns = new WeakMap();
  async function fill(place, path, body) {
    const turn = (turns.get(place) ?? 0) + 1;
    turns.set(place, turn);
    place.setAttribute("aria-busy", "true");
    try {
      const html = await (await ask(path, body)).text();
      if (turns.get(place) === turn) place.replaceChildren(...nodes(html));
    } finally {
      if (turns.get(place) === turn) place.removeAttribute("aria-busy");
    }
  }

  function forget(why) {
    session.abort();
    session = new AbortController();
    sessionStorage.removeItem(KEY);
    for (const id of ["nav", "leave"]) byId(id).hidden = true;
    byId("parts").replaceChildren();
    byId("door").hidden = false;
    byId("key").value = "";
    byId("key").focus();
    document.title = "picktools console";
    say(why, why !== "");
  }

  // Shows all parts to whoever has a key.
  async function open() {
    if (!sessionStorage.getItem(KEY)) {
      byId("door").hidden = false;
      return;
    }
    try {
      await fill(byId("parts"), "/console/parts");
    } catch (error) {
      if (sessionStorage.getItem(KEY)) byId("door").hidden = false;
      failed(error);
      return;
    }
    byId("door").hidden = true;
    for (const id of ["nav", "leave"]) byId(id).hidden = false;
    show();
    listen();
    count();
  }

  function show() {
    if (!byId("try")) return;
    const asked = location.hash.slice(1);
    if (asked !== "" && !PARTS.includes(asked)) return;
    const part = asked || "try";
    say("");
    for (const name of PARTS) byId(name).hidden = name !== part;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === "#" + part) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    load(part);
    if (part === "try") byId("request").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  function load(part) {
    const loads = { catalog: () => tools(1), waiting: waiting, servers: () => fill(byId("servers-list"), "/console/servers") };
    loads[part]?.().catch(failed);
  }

  const waiting = async () => {
    await fill(byId("waiting-list"), "/console/waiting");
    badge(byId("waiting-list").querySelectorAll(":scope > [data-waiting]").length);
  };

  const tools = (page) => {
    const wanted = new URLSearchParams({
      text: byId("text").value, server: byId("server").value, kind: byId("kind").value, page: String(page),
    });
    return fill(byId("tools"), "/console/catalog?" + wanted);
  };

  async function attempt() {
    const body = { request: byId("request").value, picks: Number(byId("picks").value), role: byId("role").value };
    say("");
    await fill(byId("picks-found"), "/console/try", body);
    const found = byId("picks-found").querySelectorAll(".picks > li").length;
    say(found === 1 ? "1 tool was picked." : found + " tools were picked.");
  }

  // How much waits; the list itself stays as it is while somebody reads it.
  async function count() {
    const { signal } = session;
    while (!signal.aborted) {
      if (!document.hidden) {
        try {
          badge(Number(await (await ask("/console/waiting/count")).text()));
        } catch (error) {
          if (signal.aborted) return;
        }
      }
      await wait(LOOK_MS);
    }
  }

  function badge(waits) {
    const badge = byId("waiting-count");
    badge.textContent = String(waits);
    badge.hidden = waits === 0;
    document.title = waits === 0 ? "picktools console" : "(" + waits + ") picktools console";
  }

  async function decide(button) {
    const { definition, digest, approve, call, run } = button.dataset;
    const [path, body] = definition === undefined
      ? ["/console/calls", { id: call, run: run === "true" }]
      : ["/console/definitions", { id: definition, digest, approve: approve === "true" }];
    const buttons = button.closest(".decide").querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    try {
      say(await (await ask(path, body)).text());
    } catch (error) {
      for (const each of buttons) each.disabled = false;
      throw error;
    }
    await waiting();
    byId("waiting-title").focus();
  }

  // The stream of what is decided. An EventSource cannot send a key.
  const live = { isPaused: false, kept: [] };

  async function listen() {
    const { signal } = session;
    const state = byId("live-state");
    while (!signal.aborted) {
      try {
        const answer = await ask("/console/live");
        state.textContent = "listening";
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ;) {
          const { value, done } = await reader.read();
          if (done) break;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const event of events) heard(event);
        }
      } catch (error) {
        if (signal.aborted) return;
        state.textContent = "connecting again";
        await wait(2000);
      }
    }
  }

  function heard(event) {
    const data = event.split("\n").filter((line) => line.startsWith("data:"));
    if (data.length === 0) return;
    const [row] = nodes(data.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
    const time = row.querySelector("time");
    const at = new Date(Number(time.dataset.ms));
    if (at.getTime() > 0) {
      time.dateTime = at.toISOString();
      time.textContent = at.toLocaleTimeString();
    }
    live.kept.unshift(row);
    live.kept.length = Math.min(live.kept.length, ROWS);
    if (live.isPaused) byId("pause").textContent = "Go on (" + live.kept.length + " new)";
    else flow();
  }

  function flow() {
    const entries = byId("entries");
    entries.prepend(...live.kept);
    live.kept = [];
    while (entries.children.length > ROWS) entries.lastElementChild.remove();
    byId("live-empty").hidden = entries.children.length > 0;
  }

  function pause(button) {
    live.isPaused = !live.isPaused;
    button.setAttribute("aria-pressed", String(live.isPaused));
    button.textContent = live.isPaused ? "Go on" : "Pause";
    if (!live.isPaused) flow();
  }

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    const { id } = event.target;
    if (id === "key-form") {
      sessionStorage.setItem(KEY, byId("key").value.trim());
      say("");
      open();
    }
    if (id === "try-form") attempt().catch(failed);
    if (id === "catalog-form") tools(1).catch(failed);
  });

  document.addEventListener("click", (event) => {
    if (event.target.matches(".skip")) {
      event.preventDefault();
      byId("main").focus();
    }
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "leave") forget("");
    else if (button.id === "pause") pause(button);
    else if (button.id === "clear") {
      byId("entries").replaceChildren();
      live.kept = [];
      flow();
    } else if (button.dataset.load) load(button.dataset.load);
    else if (button.dataset.page) {
      tools(Number(button.dataset.page)).then(() => byId("text").scrollIntoView()).catch(failed);
    } else if (button.dataset.definition !== undefined || button.dataset.call !== undefined) decide(button).catch(failed);
  });

  document.addEventListener("keydown", (event) => {
    if (event.target.id === "request" && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("try-form").requestSubmit();
    }
  });

  let typed;
  document.addEventListener("input", (event) => {
    if (!event.target.closest("#catalog-form")) return;
    clearTimeout(typed);
    typed = setTimeout(() => tools(1).catch(failed), 150);
  });

  // A definition is asked for when it is first looked at.
  document.addEventListener("toggle", (event) => {
    const { target } = event;
    if (!target.open || target.dataset.tool === undefined) return;
    const place = target.querySelector(".definition");
    if (place.childElementCount > 0) return;
    fill(place, "/console/tool?" + new URLSearchParams({ id: target.dataset.tool })).catch(failed);
  }, true);

  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#key=")) {
      keyOfLink();
      open();
    } else show();
  });

  keyOfLink();
  open();
})();
