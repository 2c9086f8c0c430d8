// Reads answers that end with lists of sources and links to files, which are meant for chat clients
// that ignore annotations. Also tests an agent's connections, and checks the warnings of its runs.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, KNOWS_ID, LISTS_ID, LACKS_ID, QUESTION } = process.env;
const client = new OpenAI({ apiKey: PARLEY_API_KEY, baseURL: `${PARLEY_BASE_URL}/v1` });
const user = (content) => ({ role: "user", content });
const program = user("Run this code:\n```python\nopen('table.csv', 'w').write('a,b\\n1,2\\n')\nprint('written')\n```");
const metadata = { append_sources: "true" };

async function api(method, path) {
  const answer = await fetch(PARLEY_BASE_URL + path, { method, headers: { "x-api-key": PARLEY_API_KEY } });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

// open reads a link as a browser does, without a credential.
async function open(link) {
  const answer = await fetch(link);
  assert.equal(answer.status, 200, link);
  assert.match(answer.headers.get("content-disposition"), /table\.csv/);
  return answer.text();
}

const linkIn = (text) => text.match(/\n\n\*\*Files\*\*\n\n- \[table\.csv\]\((\S+)\)$/)?.[1] ?? assert.fail(text);

// Whether a completion is streamed or not, its text ends with a link to the created file.
const whole = await client.chat.completions.create({ model: AGENT_ID, messages: [program], metadata });
const content = whole.choices[0].message.content;
assert.equal(await open(linkIn(content)), "a,b\n1,2\n");
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model: AGENT_ID, messages: [program], metadata, stream: true })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
}
assert.equal(await open(linkIn(streamed)), "a,b\n1,2\n");
const without = await client.chat.completions.create({ model: AGENT_ID, messages: [program] });
assert.doesNotMatch(without.choices[0].message.content, /\*\*Files\*\*/);
assert.equal(await open(without.choices[0].message.annotations[0].url_citation.url), "a,b\n1,2\n");

// The list of files at the end of an answer does not become a part of the history.
const next = await client.chat.completions.create({ model: AGENT_ID, messages: [program, whole.choices[0].message, user("Thanks.")], metadata });
const { input } = await api("GET", `/api/runs?id=${next.parley.runId}&timeline=1`);
assert.equal(input.history.length, 1);
assert.doesNotMatch(input.history[0].answer, /\*\*Files\*\*/);

// A response cites the created file. The client can download the file with its key. Anyone can
// download it with the link.
const response = await client.responses.create({ model: AGENT_ID, input: program.content, metadata: { session_id: "sources-1" } });
const cited = response.output.at(-1).content[0].annotations.find((a) => a.type === "container_file_citation");
assert.equal(cited.filename, "table.csv");
assert.equal(cited.container_id, response.output.find((item) => item.type === "code_interpreter_call").container_id);
const download = await client.containers.files.content.retrieve(cited.file_id, { container_id: cited.container_id });
assert.equal(await download.text(), "a,b\n1,2\n");
assert.equal(await open(cited.url), "a,b\n1,2\n");

// After the session has been erased, the link no longer works.
await api("DELETE", `/api/sessions?id=sources-1&agentId=${AGENT_ID}`);
assert.equal((await fetch(cited.url)).status, 404);

// Clients that cannot send metadata get the list of sources if a setting of the agent enables the
// list.
const listed = await client.chat.completions.create({ model: LISTS_ID, messages: [user(QUESTION)] });
assert.match(listed.choices[0].message.content, /\n\n\*\*Sources\*\*\n\n- \[1\] /);
const unlisted = await client.chat.completions.create({ model: KNOWS_ID, messages: [user(QUESTION)] });
assert.doesNotMatch(unlisted.choices[0].message.content, /\*\*Sources\*\*/);

// A test of the agent's connections reports the unreachable MCP server. A run reports the
// unreachable server as a warning.
const check = await api("POST", `/api/agents?id=${LACKS_ID}&action=check`);
assert.deepEqual(check.checks.map((c) => [c.kind, c.name, c.ok]), [["model", "offline/echo", true], ["mcp", "missing", false]]);
assert.equal(check.checks[1].detail, "The host could not be reached.");
assert.deepEqual((await api("GET", `/api/agents?id=${LACKS_ID}`)).lastCheck, check);
const lacking = await client.chat.completions.create({ model: LACKS_ID, messages: [user("Hello.")] });
assert.deepEqual((await api("GET", `/api/runs?id=${lacking.parley.runId}`)).warnings, [{ kind: "mcp", name: "missing", message: "The host could not be reached." }]);
console.log(JSON.stringify({ done: true }));
