// The official TypeScript client, driven by steps in JSON on standard input; prints an outcome in JSON per step.
//
// official.mjs stdio COMMAND ARGUMENTS... | official.mjs http URL [KEY]; ELICIT is accept, decline or nothing, and
// MODULES the folder of the SDK.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.MODULES}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const elicit = process.env.ELICIT;
const capabilities = elicit ? { elicitation: {} } : {};
const client = new Client({ name: "test", version: "1" }, { capabilities });
const asked = [];
let changed = () => {};
let change = new Promise((resolve) => (changed = resolve));
client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => changed());
if (elicit) {
    client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
        asked.push(params.message);
        if (elicit !== "accept") return { action: elicit };
        const names = Object.keys(params.requestedSchema.properties);
        return { action: "accept", content: Object.fromEntries(names.map((name) => [name, name === "run" || "blue"])) };
    });
}

async function call(step) {
    const params = { name: step.name, arguments: step.arguments ?? {} };
    const heard = [];
    const options = { timeout: 60_000 };
    if (step.progress) options.onprogress = (told) => heard.push([told.progress, told.total, told.message]);
    if ("cancel_after" in step) {
        const controller = new AbortController();
        const called = client.callTool(params, undefined, { ...options, signal: controller.signal });
        setTimeout(() => controller.abort("enough"), step.cancel_after * 1_000);
        return await called.then(
            () => ({ cancelled: false }),
            () => ({ cancelled: true }),
        );
    }
    const result = await client.callTool(params, undefined, options);
    return step.progress ? { ...result, progress: heard } : result;
}

async function outcome(step) {
    switch (step.do) {
        case "list": {
            const tools = [];
            let cursor;
            do {
                const page = await client.listTools({ cursor });
                tools.push(...page.tools);
                cursor = page.nextCursor;
            } while (cursor);
            return { tools };
        }
        case "call":
            return await call(step);
        case "asked":
            return { asked };
        case "read_resource":
            return await client.readResource({ uri: step.uri });
        case "get_prompt":
            return await client.getPrompt({ name: step.name, arguments: step.arguments });
        case "wait_list_changed":
            // A notification of an earlier change may be pending.
            do {
                await change;
                change = new Promise((resolve) => (changed = resolve));
            } while (step.tool && !(await client.listTools()).tools.some((tool) => tool.name === step.tool));
            return { changed: true };
        default:
            throw new Error(step.do);
    }
}

const [way, target, ...more] = process.argv.slice(2);
const headers = more.length ? { Authorization: `Bearer ${more[0]}` } : {};
await client.connect(
    way === "stdio"
        ? new StdioClientTransport({ command: target, args: more, env: process.env })
        : new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } }),
);
console.log(JSON.stringify({ serverInfo: client.getServerVersion(), instructions: client.getInstructions() }));
for await (const line of createInterface({ input: process.stdin })) {
    const made = await outcome(JSON.parse(line)).catch((error) => ({
        error: { code: error.code ?? 0, message: String(error) },
    }));
    console.log(JSON.stringify(made));
}
await client.close();
