// Calls a slow agent through a proxy that aborts the request while the agent works. The client's
// retry has the same idempotency key, so it attaches to the existing run. Prints the answer.
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, MESSAGE } = process.env;
const client = new OpenAI({ baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY });
const answer = await client.chat.completions.create(
  { model: AGENT_ID, messages: [{ role: "user", content: MESSAGE }] }, { headers: { "Idempotency-Key": "attach-1" } });
console.log(JSON.stringify({ text: answer.choices[0].message.content, runId: answer.parley.runId }));
