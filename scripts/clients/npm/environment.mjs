// Checks that the npm packages are installed and that the service responds. Then prints, for the Go
// test, the environment variables that scripts get.
import { readFile } from "node:fs/promises";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, EXTRA } = process.env;
const answer = await fetch(`${PARLEY_BASE_URL}/api/agents?id=${AGENT_ID}`, { headers: { "x-api-key": PARLEY_API_KEY } });
const agent = await answer.json();
const openai = JSON.parse(await readFile(new URL("node_modules/openai/package.json", import.meta.url), "utf8"));
console.log(JSON.stringify({ PARLEY_BASE_URL, AGENT_ID, EXTRA, openai: openai.version, agent: agent.id }));
