// The script of the console page. It inserts fragments of HTML that the server renders with all text escaped. It never turns
// text into HTML. The key is stored until the tab closes, and is sent in a header.
"use strict";

(() => {
  const KEY = "picktools-console-key";
  const SECTIONS = ["try", "catalog", "waiting", "live", "servers"];
  const MAX_ENTRIES = 200;
  const COUNT_INTERVAL_MS = 5000;

  const byId = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Aborts the requests in progress when the key is forgotten.
  let session = new AbortController();

  function takeKeyFromLink() {
    const match = /^#key=(.+)$/.exec(location.hash);
    if (!match) return;
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem(KEY, match[1]);
  }

  function say(text, isBad = false) {
    const status = byId("said");
    status.textContent = text;
    status.classList.toggle("bad", isBad);
  }

  // Sends a request with the key. If the key is refused, shows the sign-in form.
  async function send(path, body) {
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
    const reason = (await answer.text()).trim() || answer.statusText;
    if (answer.status === 401 || answer.status === 403) forget(reason);
    throw new Error(reason);
  }

  // Shows an error, unless the request was aborted on purpose.
  function showError(error) {
    if (error.name === "AbortError") return;
    const isNetworkError = error instanceof TypeError;
    say(isNetworkError ? "The gateway cannot be reached, or the key contains invalid characters." : error.message, true);
  }

  const nodes = (html) => [...new DOMParser().parseFromString(html, "text/html").body.childNodes];

  // Requests a fragment and inserts it, unless a later request was sent for the same place.
  const turns = new WeakMap();
  async function fill(place, path, body) {
    const turn = (turns.get(place) ?? 0) + 1;
    turns.set(place, turn);
    place.setAttribute("aria-busy", "true");
    try {
      const html = await (await send(path, body)).text();
      if (turns.get(place) === turn) place.replaceChildren(...nodes(html));
    } finally {
      if (turns.get(place) === turn) place.removeAttribute("aria-busy");
    }
  }

  function forget(reason) {
    session.abort();
    session = new AbortController();
    sessionStorage.removeItem(KEY);
    for (const id of ["nav", "leave"]) byId(id).hidden = true;
    byId("parts").replaceChildren();
    byId("door").hidden = false;
    byId("key").value = "";
    byId("key").focus();
    document.title = "picktools console";
    say(reason, reason !== "");
  }

  // Loads the sections if there is a key, and shows the sign-in form otherwise.
  async function open() {
    if (!sessionStorage.getItem(KEY)) {
      byId("door").hidden = false;
      return;
    }
    try {
      await fill(byId("parts"), "/console/parts");
    } catch (error) {
      if (sessionStorage.getItem(KEY)) byId("door").hidden = false;
      showError(error);
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
    const requested = location.hash.slice(1);
    if (requested !== "" && !SECTIONS.includes(requested)) return;
    const part = requested || "try";
    say("");
    for (const name of SECTIONS) byId(name).hidden = name !== part;
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
    loads[part]?.().catch(showError);
  }

  const waiting = async () => {
    await fill(byId("waiting-list"), "/console/waiting");
    badge(byId("waiting-list").querySelectorAll(":scope > [data-waiting]").length);
  };

  const tools = (page) => {
    const query = new URLSearchParams({
      text: byId("text").value, server: byId("server").value, kind: byId("kind").value, page: String(page),
    });
    return fill(byId("tools"), "/console/catalog?" + query);
  };

  async function attempt() {
    const body = { request: byId("request").value, picks: Number(byId("picks").value), role: byId("role").value };
    say("");
    await fill(byId("picks-found"), "/console/try", body);
    const picks = byId("picks-found").querySelectorAll(".picks > li").length;
    say(picks === 1 ? "1 tool was picked." : picks + " tools were picked.");
  }

  // Updates the number of waiting items. The list itself does not change while the operator reads it.
  async function count() {
    const { signal } = session;
    while (!signal.aborted) {
      if (!document.hidden) {
        try {
          badge(Number(await (await send("/console/waiting/count")).text()));
        } catch (error) {
          if (signal.aborted) return;
        }
      }
      await wait(COUNT_INTERVAL_MS);
    }
  }

  function badge(waits) {
    const badge = byId("waiting-count");
    badge.textContent = String(waits);
    badge.hidden = waits === 0;
    document.title = waits === 0 ? "picktools console" : "(" + waits + ") picktools console";
  }

  async function decide(button) {
    const { definition, version, approve, call, run, revoke } = button.dataset;
    const scope = button.closest(".decide").querySelector("select")?.value ?? "call";
    let [path, body] = ["/console/definitions", { id: definition, version, approve: approve === "true" }];
    if (call !== undefined) [path, body] = ["/console/calls", { id: call, run: run === "true", scope }];
    if (revoke !== undefined) [path, body] = ["/console/revoke", { id: revoke }];
    const buttons = button.closest(".decide").querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    try {
      say(await (await send(path, body)).text());
    } catch (error) {
      for (const each of buttons) each.disabled = false;
      throw error;
    }
    await waiting();
    byId("waiting-title").focus();
  }

  // The stream of journal entries. It uses fetch because an EventSource cannot send a key.
  const live = { isPaused: false, pending: [] };

  async function listen() {
    const { signal } = session;
    const state = byId("live-state");
    while (!signal.aborted) {
      try {
        const answer = await send("/console/live");
        state.textContent = "listening";
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ;) {
          const { value, done } = await reader.read();
          if (done) break;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const event of events) addEntry(event);
        }
      } catch (error) {
        if (signal.aborted) return;
        state.textContent = "reconnecting";
        await wait(2000);
      }
    }
  }

  function addEntry(event) {
    const data = event.split("\n").filter((line) => line.startsWith("data:"));
    if (data.length === 0) return;
    const [row] = nodes(data.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
    const time = row.querySelector("time");
    const at = new Date(Number(time.dataset.ms));
    if (at.getTime() > 0) {
      time.dateTime = at.toISOString();
      time.textContent = at.toLocaleTimeString();
    }
    live.pending.unshift(row);
    live.pending.length = Math.min(live.pending.length, MAX_ENTRIES);
    if (live.isPaused) byId("pause").textContent = "Resume (" + live.pending.length + " new)";
    else showPending();
  }

  function showPending() {
    const entries = byId("entries");
    entries.prepend(...live.pending);
    live.pending = [];
    while (entries.children.length > MAX_ENTRIES) entries.lastElementChild.remove();
    byId("live-empty").hidden = entries.children.length > 0;
  }

  function pause(button) {
    live.isPaused = !live.isPaused;
    button.setAttribute("aria-pressed", String(live.isPaused));
    button.textContent = live.isPaused ? "Resume" : "Pause";
    if (!live.isPaused) showPending();
  }

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    const { id } = event.target;
    if (id === "key-form") {
      sessionStorage.setItem(KEY, byId("key").value.trim());
      say("");
      open();
    }
    if (id === "try-form") attempt().catch(showError);
    if (id === "catalog-form") tools(1).catch(showError);
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
      live.pending = [];
      showPending();
    } else if (button.dataset.load) load(button.dataset.load);
    else if (button.dataset.page) {
      tools(Number(button.dataset.page)).then(() => byId("text").scrollIntoView()).catch(showError);
    } else if (["definition", "call", "revoke"].some((kind) => button.dataset[kind] !== undefined)) decide(button).catch(showError);
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
    typed = setTimeout(() => tools(1).catch(showError), 150);
  });

  // A definition is requested when it is opened for the first time.
  document.addEventListener("toggle", (event) => {
    const { target } = event;
    if (!target.open || target.dataset.tool === undefined) return;
    const place = target.querySelector(".definition");
    if (place.childElementCount > 0) return;
    fill(place, "/console/tool?" + new URLSearchParams({ id: target.dataset.tool })).catch(showError);
  }, true);

  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#key=")) {
      takeKeyFromLink();
      open();
    } else show();
  });

  takeKeyFromLink();
  open();
})();
