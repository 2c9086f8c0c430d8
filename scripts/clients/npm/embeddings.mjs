// Embeds texts with clients from npm. Each part throws an error if a result is wrong.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embedMany } from "ai";
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY } = process.env;
const baseURL = `${PARLEY_BASE_URL}/v1`;
const model = "offline";
const client = new OpenAI({ apiKey: PARLEY_API_KEY, baseURL });

const texts = ["Every ladder is inspected monthly.", "Our warranty covers two years.", "How often are ladders inspected?"];
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

// near checks that the question's vector is closer to its answer's vector than to the other text's
// vector.
function near(what, [answer, other, question]) {
  assert.ok(dot(question, answer) > dot(question, other), `${what}: the other text is nearer`);
}

// OpenAI's client requests vectors in base64 unless the caller chooses another encoding.
const packed = await client.embeddings.create({ model, input: texts });
const plain = await client.embeddings.create({ model, input: texts, encoding_format: "float" });
assert.deepEqual(packed.data.map((d) => d.index), [0, 1, 2]);
near(model, packed.data.map((d) => d.embedding));
plain.data.forEach((d, i) => d.embedding.forEach((x, n) => assert.ok(Math.abs(x - packed.data[i].embedding[n]) < 1e-6, "base64 and float differ")));
assert.ok(packed.usage.prompt_tokens > 3 && packed.usage.total_tokens === packed.usage.prompt_tokens);

const small = await client.embeddings.create({ model, input: texts[0], dimensions: 24 });
assert.equal(small.data[0].embedding.length, 24);

near("LangChain", await new OpenAIEmbeddings({ model, apiKey: PARLEY_API_KEY, configuration: { baseURL } }).embedDocuments(texts));
const { embeddings, usage } = await embedMany({ model: createOpenAI({ baseURL, apiKey: PARLEY_API_KEY }).textEmbeddingModel(model), values: texts });
near("AI SDK", embeddings);
assert.ok(usage.tokens > 3);

const many = Array.from({ length: 300 }, (_, i) => `text number ${i}`);
const all = await client.embeddings.create({ model, input: many });
const last = await client.embeddings.create({ model, input: many[299] });
assert.equal(all.data.length, 300);
assert.ok(dot(all.data[299].embedding, last.data[0].embedding) > 0.999, "the vectors are not in the order of the texts");

// failed returns the error of a request that must fail.
async function failed(status, body) {
  try {
    await client.embeddings.create(body);
  } catch (error) {
    assert.equal(error.status, status, error.message);
    return error;
  }
  assert.fail(`no error for ${JSON.stringify(body)}`);
}
const unknown = await failed(404, { model: "text-embedding-3-small", input: "a" });
assert.equal(unknown.code, "model_not_found");
assert.match(unknown.message, /EMBEDDINGS_MODEL/);
assert.equal((await failed(400, { model, input: [[1, 2]] })).param, "input[0]");
assert.equal((await failed(400, { model, input: ["a", ""] })).param, "input[1]");

console.log(JSON.stringify({ done: true }));
