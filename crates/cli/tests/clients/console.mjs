// Uses the console in a real browser as an operator does, and prints its observations line by line.
//
// usage: node console.mjs LINK CHANGES    (MODULES, BROWSER: where modules and the browser are; SHOTS: a folder for pictures)

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const load = createRequire(join(process.env.MODULES, "none.js"));
const { chromium } = load("playwright-core");
const AXE = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");
const [link, changes] = process.argv.slice(2);
const origin = new URL(link).origin;
const key = new URL(link).hash.slice("#key=".length);
const SHOTS = process.env.SHOTS;
if (SHOTS) mkdirSync(SHOTS, { recursive: true });

const HOSTILE = {
  name: "innocent",
  title: "<b>bold</b><script>window.ran = 1</script>",
  description: "Orders pizza \u202egnihton\u202c <script>window.ran = 2</script><img src=x onerror='window.ran = 3'>"
    + "<a href=\"javascript:window.ran = 4\">more</a> {{ 7 * 7 }} \"quoted' & </pre></details>" + "x".repeat(100_000),
  inputSchema: { type: "object", properties: { "<svg onload=window.ran=5>": { type: "string", description: "</script><script>window.ran = 6</script>" } } },
};
const change = (what) => writeFileSync(changes, JSON.stringify(what));

// Calls a tool like a client without sessions that cannot ask a person.
async function call(name, args) {
  const params = {
    name, arguments: args,
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  };
  const headers = {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const text = await (await fetch(origin + "/mcp", { method: "POST", headers, body })).text();
  const lines = text.split("\n").map((line) => line.replace(/^data: /, ""));
  return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line)).find((message) => message.id === 1);
}

const folder = mkdtempSync(join(tmpdir(), "console-"));
const context = await chromium.launchPersistentContext(folder, {
  executablePath: process.env.BROWSER,
  viewport: { width: 1280, height: 900 },
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const problems = [];
const page = context.pages()[0] ?? await context.newPage();
page.setDefaultTimeout(20_000);
page.on("dialog", (dialog) => { problems.push("dialog: " + dialog.message()); dialog.dismiss(); });
page.on("pageerror", (error) => problems.push("error: " + error));
page.on("console", (message) => { if (message.type() === "error") problems.push("console: " + message.text()); });
page.on("request", (request) => {
  if (!request.url().startsWith(origin + "/console") && !request.url().startsWith("data:")) problems.push("asked: " + request.url());
  if (request.url().includes(key)) problems.push("the key was sent in an address");
});
await page.addInitScript(() => {
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
});

const part = async (name) => {
  await page.click(`nav a[href="#${name}"]`);
  await page.waitForSelector(`#${name}:not([hidden])`);
  await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
};
const said = (text) => page.waitForFunction((text) => document.querySelector("#said").textContent.includes(text), text);
const shot = async (name) => { if (SHOTS) await page.screenshot({ path: join(SHOTS, name + ".png") }); };
const seen = (what) => console.log(what);
const attempt = async (text) => {
  await part("try");
  await page.fill("#request", text);
  await page.click("#try-form button");
  await said("picked");
};
const card = (name) => page.locator(`#waiting-list > .card`).filter({ has: page.locator("h3", { hasText: name }) });
const waits = async (name) => {
  await part("waiting");
  for (let tries = 0; await card(name).count() === 0; tries++) {
    assert.ok(tries < 80, `${name} waits`);
    await page.waitForTimeout(250);
    await page.click("#waiting button[data-load]");
    await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
  }
  return card(name);
};
const approve = async (name) => {
  await (await waits(name)).locator("button", { hasText: "Approve" }).click();
  await said("approved: up/" + name);
  // The focus is kept when the button disappears.
  await page.waitForFunction(() => document.activeElement.id === "waiting-title");
};

// Checks accessibility in both themes and widths.
async function look(name) {
  for (const theme of ["light", "dark"]) {
    for (const width of [1280, 360]) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(150);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} wide at ${width}`);
      await shot(`${name}-${theme}-${width}`);
      const found = await page.evaluate(async (source) => {
        if (!window.axe) (0, window.eval)(source);
        return (await window.axe.run(document)).violations.map((violation) => [violation.impact, violation.id,
          violation.nodes.map((node) => node.html.slice(0, 200) + " " + (node.any[0]?.message ?? "")).slice(0, 3)]);
      }, AXE).catch(async () => {
        // The content security policy forbids evaluation, except by the browser driver.
        await page.evaluate(AXE);
        return page.evaluate(async () => (await window.axe.run(document)).violations.map((violation) => [violation.impact,
          violation.id, violation.nodes.map((node) => node.html.slice(0, 200) + " " + (node.any[0]?.message ?? "")).slice(0, 3)]));
      });
      const grave = found.filter(([impact]) => ["serious", "critical"].includes(impact));
      assert.deepEqual(grave, [], `${name}, ${theme}, ${width}`);
      if (found.length > 0) seen(`minor: ${name} ${JSON.stringify(found)}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
}

try {
  // Without a key, and with a wrong key.
  await page.goto(origin + "/console");
  await page.waitForSelector("#door:not([hidden])");
  await look("door");
  await page.fill("#key", "pk_wrong");
  await page.keyboard.press("Enter");
  await said("unknown key");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await page.locator("#parts > *").count(), 0);
  problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes("401")));
  seen("a wrong key shows nothing");

  await page.goto("about:blank");
  await page.goto(link);
  await page.waitForSelector("#try:not([hidden])");
  assert.equal(page.url(), origin + "/console", "the key is not in the address any longer");
  await page.waitForFunction(() => document.querySelector("#live-state").textContent === "listening");
  seen("the link signs in");

  await attempt("add two numbers to a sum");
  const picks = page.locator("#picks-found .picks > li");
  assert.equal(await picks.first().locator("h3").textContent(), "up/add");
  const bars = await picks.first().locator(".signals .of").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
  assert.ok(bars.length >= 2 && bars.some((width) => width > 5), String(bars));
  assert.ok((await page.locator("#picks-found .facts").textContent()).includes("ms"));
  await look("try");
  seen("a request is tried");

  await part("catalog");
  await page.fill("#text", "ECHO");
  await page.waitForFunction(() => document.querySelectorAll("#tools details").length === 1);
  await page.click("#tools summary");
  await page.waitForSelector("#tools pre");
  assert.ok((await page.locator("#tools pre").textContent()).includes("\"inputSchema\""));
  await look("catalog-one");
  await page.fill("#text", "");
  await page.selectOption("#kind", "unsafe");
  await page.waitForFunction(() => document.querySelectorAll("#tools details").length === 1);
  await page.selectOption("#kind", "all");
  await page.waitForFunction(() => document.querySelectorAll("#tools details").length === 25);
  await look("catalog");
  seen("the catalog is filtered");

  change({ descriptions: { echo: "Gives a text back in capital letters" }, add: [HOSTILE] });
  const echo = await waits("echo");
  assert.equal(await echo.locator("ins").textContent(), " in capital letters");
  const innocent = await waits("innocent");
  assert.ok((await innocent.textContent()).includes("<script>window.ran = 2</script>"));
  assert.ok(!(await page.content()).includes("\u202e"), "what turns the text is marked");
  await look("waiting");
  await approve("echo");
  await approve("innocent");
  await part("catalog");
  await page.fill("#text", "pizza");
  for (let tries = 0; ; tries++) {
    assert.ok(tries < 40, "it is in the catalog once it is approved");
    await page.fill("#text", tries % 2 ? "pizza" : "orders pizza");
    await page.waitForTimeout(500);
    if (await page.locator("#tools:not([aria-busy]) details").count() === 1) break;
  }
  await page.click("#tools summary");
  await page.waitForSelector("#tools pre");
  const whole = await page.locator("#tools .definition .whole").textContent();
  assert.ok(whole.includes("<img src=x onerror='window.ran = 3'>") && whole.length > 100_000, "all of it, as text");
  await look("hostile");
  await attempt("up/innocent orders pizza");
  assert.ok((await picks.locator("h3").allTextContents()).includes("up/innocent"));
  await page.fill("#request", "<script>window.ran = 7</script> order a pizza");
  await page.keyboard.press("Enter");
  await said("picked");
  seen("what is held is shown with its change, approved, and does nothing");

  const denied = await call("up__delete_everything", { name: "<b>orders</b>" });
  assert.equal(denied.result.isError, true, JSON.stringify(denied));
  await part("waiting");
  await page.waitForSelector("#waiting-count:not([hidden])");
  await page.click("#waiting button[data-load]");
  await page.waitForSelector("button[data-run=true]");
  assert.ok((await page.locator("#waiting-list .call").textContent()).includes("<b>orders</b>"));
  await look("calls");
  await page.click("button[data-run=true]");
  await said("may run once");
  const ran = await call("up__delete_everything", { name: "<b>orders</b>" });
  assert.notEqual(ran.result.isError, true, JSON.stringify(ran));
  seen("a call that waits is decided");

  await part("live");
  await call("up__echo", { text: "hello" });
  await page.waitForSelector("#entries li:has-text(\"up/echo\")");
  await page.click("#pause");
  await call("up__add", { a: 1, b: 2 });
  await page.waitForFunction(() => document.querySelector("#pause").textContent.includes("1 new"));
  assert.equal(await page.locator("#entries li:has-text(\"up/add\")").count(), 0);
  await page.click("#pause");
  await page.waitForSelector("#entries li:first-child:has-text(\"up/add\")");
  await look("live");
  seen("what happens is seen as it happens");

  await part("servers");
  await page.waitForSelector("#servers-list .card");
  const server = await page.locator("#servers-list .card").textContent();
  assert.ok(server.includes("up") && server.includes("not_confirmed"), server);
  await look("servers");
  seen("servers are shown");

  // With the keyboard only.
  await page.goto(origin + "/console#servers");
  await page.reload();
  await page.waitForSelector("#servers:not([hidden])");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  const reached = [];
  for (let tabs = 0; tabs < 6; tabs++) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement.textContent));
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "where the focus is can be seen");
  }
  assert.deepEqual(reached.map((text) => text.replace(/\d/g, "")), ["Try", "Catalog", "Waiting", "Live", "Servers", "Forget the key"]);
  for (let tabs = 0; tabs < 4; tabs++) await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#catalog:not([hidden]) details");
  await page.evaluate(() => document.querySelector(".skip").focus());
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  seen("the keyboard is enough");

  await page.click("#leave");
  await page.waitForSelector("#door:not([hidden])");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await page.locator("#parts > *").count(), 0);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.deepEqual(await page.evaluate(() => window.violations), []);
  assert.deepEqual(problems, []);
  seen("nothing ran, and nothing was asked for elsewhere");
} catch (error) {
  await shot("failed");
  console.error(error, problems);
  process.exitCode = 1;
} finally {
  await context.close();
  rmSync(folder, { recursive: true, force: true });
}
