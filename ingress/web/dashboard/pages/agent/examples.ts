// Code examples that call an agent, with the agent's id and the service's URL filled in.
import * as texts from "../../texts/use";
import { Words } from "../../texts/use";

interface Where {
  baseUrl: string;
  id: string;
}

const sample = Words.whatCanYouDo;

const chatAddress = ({ baseUrl, id }: Where): string => `${baseUrl}/api/agents?id=${id}&action=chat`;

export const chat = (where: Where): Record<string, string> => ({
  curl: `curl '${chatAddress(where)}' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'content-type: application/json' \\
  -d '{"sessionId":"demo-1","message":"${sample}"}'`,
  JavaScript: `const response = await fetch("${chatAddress(where)}", {
  method: "POST",
  headers: { "x-api-key": process.env.PARLEY_API_KEY, "content-type": "application/json" },
  body: JSON.stringify({ sessionId: "demo-1", message: "${sample}" }),
});
const run = await response.json();
if (!response.ok) throw new Error(run.detail);
console.log(run.status, run.message);`,
  Python: `import json, os, urllib.request

request = urllib.request.Request(
    "${chatAddress(where)}",
    data=json.dumps({"sessionId": "demo-1", "message": "${sample}"}).encode(),
    headers={"x-api-key": os.environ["PARLEY_API_KEY"], "content-type": "application/json"},
)
with urllib.request.urlopen(request) as response:
    run = json.load(response)
print(run["status"], run["message"])`,
});

export const stream = (where: Where): Record<string, string> => ({
  curl: `curl -N '${chatAddress(where)}' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'content-type: application/json' \\
  -d '{"sessionId":"demo-1","message":"${sample}","stream":true}'`,
  JavaScript: `const response = await fetch("${chatAddress(where)}", {
  method: "POST",
  headers: { "x-api-key": process.env.PARLEY_API_KEY, "content-type": "application/json" },
  body: JSON.stringify({ sessionId: "demo-1", message: "${sample}", stream: true }),
});
if (!response.ok) throw new Error((await response.json()).detail);
let rest = "";
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const events = (rest + piece).split("\\n\\n");
  rest = events.pop();
  for (const event of events) {
    const data = event.split("\\n").find((line) => line.startsWith("data:"));
    if (event.includes("event: message.delta")) process.stdout.write(JSON.parse(data.slice(5)).text);
  }
}`,
  Python: `import json, os, urllib.request

request = urllib.request.Request(
    "${chatAddress(where)}",
    data=json.dumps({"sessionId": "demo-1", "message": "${sample}", "stream": True}).encode(),
    headers={"x-api-key": os.environ["PARLEY_API_KEY"], "content-type": "application/json"},
)
event = ""
with urllib.request.urlopen(request) as response:
    for line in response:
        line = line.decode().rstrip("\\n")
        if line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:") and event == "message.delta":
            print(json.loads(line[5:])["text"], end="", flush=True)`,
});

/**
 * Examples for clients that other people have written. They need only the agent's id and the
 * service's URL.
 */
export const connect = ({ baseUrl, id }: Where): Record<string, string> => ({
  "TypeScript SDK": `import { Parley } from "parley-sdk";

const parley = new Parley({ baseUrl: "${baseUrl}" });
const run = await parley.chat({
  agentId: "${id}",
  message: "${sample}",
});
console.log(run.message);`,
  "Python SDK": `from parley import Parley

client = Parley(base_url="${baseUrl}")
run = client.chat(
    agent_id="${id}",
    message="${sample}",
)
print(run["message"])`,
  "OpenAI, Node.js": `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${baseUrl}/v1", apiKey: process.env.PARLEY_API_KEY });
const answer = await client.chat.completions.create({
  model: "${id}",
  messages: [{ role: "user", content: "${sample}" }],
});
console.log(answer.choices[0].message.content);`,
  "OpenAI, Python": `import os
from openai import OpenAI

client = OpenAI(base_url="${baseUrl}/v1", api_key=os.environ["PARLEY_API_KEY"])
answer = client.chat.completions.create(
    model="${id}",
    messages=[{"role": "user", "content": "${sample}"}],
)
print(answer.choices[0].message.content)`,
  MCP: `{
  "mcpServers": {
    "parley": {
      "type": "http",
      "url": "${baseUrl}/mcp",
      "headers": { "x-api-key": "ak_..." }
    }
  }
}`,
  "Command line": texts.parleyChatUrlBaseUrl(baseUrl, id, sample),
});

/**
 * Examples of a voice conversation. The question is sent as text, so that the program needs no
 * microphone.
 */
export const speak = ({ baseUrl, id }: Where): Record<string, string> => ({
  "Node.js": `import { appendFileSync, rmSync } from "node:fs";
import WebSocket from "ws"; // npm install ws

const socket = new WebSocket("${baseUrl.replace(/^http/, "ws")}/v1/realtime?model=${id}", {
  headers: { authorization: \`Bearer \${process.env.PARLEY_API_KEY}\` },
});
const send = (event) => socket.send(JSON.stringify(event));
rmSync("answer.pcm", { force: true });

socket.on("open", () => {
  // To speak, send { type: "input_audio_buffer.append", audio: base64 of 16-bit samples, 24,000 a second }.
  const content = [{ type: "input_text", text: "${sample}" }];
  send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  send({ type: "response.create" });
});
socket.on("message", (data) => {
  const event = JSON.parse(data);
  if (event.type === "response.output_audio_transcript.delta") process.stdout.write(event.delta);
  if (event.type === "response.output_audio.delta") appendFileSync("answer.pcm", Buffer.from(event.delta, "base64"));
  if (event.type === "error") throw new Error(event.error.message);
  if (event.type === "response.done") socket.close(); // ffplay -f s16le -ar 24000 answer.pcm
});`,
});

export const automation = ({ baseUrl, id }: Where): Record<string, string> => ({
  curl: `curl '${baseUrl}/api/internal/run-automation' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'x-trigger-type: schedule' \\
  -H 'x-automation-id: nightly' \\
  -H 'content-type: application/json' \\
  -d '{"target":"${id}","input":{"message":"Summarize the day"},"idempotencyKey":"'"nightly-$(date +%F)"'"}'`,
  cron: `# crontab -e. Escape % as \\%.
PARLEY_API_KEY=ak_...
0 6 * * * curl -sS --fail-with-body --retry 5 --retry-all-errors '${baseUrl}/api/internal/run-automation' -H "x-api-key: $PARLEY_API_KEY" -H 'x-trigger-type: schedule' -H 'x-automation-id: nightly' -H 'content-type: application/json' -d '{"target":"${id}","input":{"message":"Summarize the day"},"idempotencyKey":"'"nightly-$(date +\\%F)"'"}'`,
  JavaScript: `const day = new Date().toISOString().slice(0, 10);
const response = await fetch("${baseUrl}/api/internal/run-automation", {
  method: "POST",
  headers: {
    "x-api-key": process.env.PARLEY_API_KEY,
    "x-trigger-type": "schedule",
    "x-automation-id": "nightly",
    "content-type": "application/json",
  },
  body: JSON.stringify({ target: "${id}", input: { message: "Summarize the day" }, idempotencyKey: \`nightly-\${day}\` }),
});
const run = await response.json();
if (!response.ok) throw new Error(run.detail);
console.log(run.id, run.status, run.message);`,
  Python: `import datetime, json, os, urllib.request

body = {
    "target": "${id}",
    "input": {"message": "Summarize the day"},
    "idempotencyKey": f"nightly-{datetime.date.today()}",
}
request = urllib.request.Request(
    "${baseUrl}/api/internal/run-automation",
    data=json.dumps(body).encode(),
    headers={
        "x-api-key": os.environ["PARLEY_API_KEY"],
        "x-trigger-type": "schedule",
        "x-automation-id": "nightly",
        "content-type": "application/json",
    },
)
with urllib.request.urlopen(request) as response:
    run = json.load(response)
print(run["id"], run["status"], run["message"])`,
});

/** The appearance of the widget. An empty text means the default. */
export interface Look {
  title: string;
  greeting: string;
  accent: string;
  position: string;
  scheme: string;
}

const attribute = (name: string, value: string): string => `${name}="${value.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"`;

/** Returns the chosen options as attributes, for a script with the prefix "data-". */
const formatAttributes = (look: Look, prefix: string): string[] =>
  Object.entries(look).filter(([, value]) => value !== "").map(([name, value]) => attribute(prefix + name, value));

export const scriptTag = ({ baseUrl, id }: Where, look: Look): string =>
  `<script async src="${baseUrl}/widget.js"\n  ${[attribute("data-agent", id), ...formatAttributes(look, "data-")].join("\n  ")}></script>`;

export const element = ({ baseUrl, id }: Where, look: Look): string => {
  const { title, position: _, ...rest } = look;
  const options = formatAttributes({ ...rest, position: "", title: "" }, "");
  const all = [attribute("agent-id", id), ...(title === "" ? [] : [attribute("chat-title", title)]), ...options, "inline"];
  return `<script async src="${baseUrl}/widget.js"></script>\n<agent-chat ${all.join(" ")}></agent-chat>`;
};

export const policy = (baseUrl: string): string => `Content-Security-Policy: script-src ${baseUrl}; connect-src ${baseUrl}`;

export const signatureCode = ({ id }: Where): Record<string, string> => ({
  "Node.js": `import { createHmac } from "node:crypto";

// On your server: userId is your id of the signed-in person.
const signature = createHmac("sha256", process.env.PARLEY_IDENTITY_SECRET)
  .update("${id}\\n" + userId)
  .digest("hex");`,
  Python: `import hashlib, hmac, os

# On your server: user_id is your id of the signed-in person.
signature = hmac.new(
    os.environ["PARLEY_IDENTITY_SECRET"].encode(),
    f"${id}\\n{user_id}".encode(),
    hashlib.sha256,
).hexdigest()`,
  Go: `// On your server: userID is your id of the signed-in person.
mac := hmac.New(sha256.New, []byte(os.Getenv("PARLEY_IDENTITY_SECRET")))
mac.Write([]byte("${id}\\n" + userID))
signature := hex.EncodeToString(mac.Sum(nil))`,
});

export const signedTag = ({ baseUrl, id }: Where): string => `<script async src="${baseUrl}/widget.js"
  data-agent="${id}"
  data-visitor-id="…" data-visitor-signature="…"></script>`;
