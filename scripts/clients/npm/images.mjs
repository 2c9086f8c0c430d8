// Sends images and files in messages with OpenAI's client, frameworks and chat libraries. The
// offline model's answer lists the images and files that it received.
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Chat } from "@ai-sdk/react";
import { HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { openai as llamaOpenAI } from "@llamaindex/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { DefaultChatTransport, generateText, streamText } from "ai";
import OpenAI from "openai";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, IMAGE, DOCUMENT } = process.env; // IMAGE is a PNG and DOCUMENT a PDF, both in base64
const baseURL = `${PARLEY_BASE_URL}/v1`;
const image = `data:image/png;base64,${IMAGE}`;
const text = "Which image and file are attached?";
const note = `data:text/plain;base64,${Buffer.from("The canteen opens at noon.").toString("base64")}`;
const openai = new OpenAI({ baseURL, apiKey: PARLEY_API_KEY });
const sees = (answer) => assert.match(answer, /PNG/i);

const parts = {
  async openai() {
    const content = [{ type: "text", text }, { type: "image_url", image_url: { url: image } }];
    const seen = await openai.chat.completions.create({ model: AGENT_ID, messages: [{ role: "user", content }] });
    sees(seen.choices[0].message.content);
    const file = { type: "file", file: { filename: "note.txt", file_data: note } };
    const read = await openai.chat.completions.create({ model: AGENT_ID, messages: [{ role: "user", content: [content[0], file] }] });
    assert.match(read.choices[0].message.content, /note\.txt/);
    const input = [{ role: "user", content: [
      { type: "input_text", text }, { type: "input_image", image_url: image, detail: "auto" }, { type: "input_file", filename: "note.txt", file_data: note },
    ] }];
    const response = await openai.responses.create({ model: AGENT_ID, input });
    sees(response.output_text);
    assert.match(response.output_text, /note\.txt/);
    const broken = [{ type: "image_url", image_url: { url: "data:image/png;base64,bm8gcGljdHVyZQ==" } }];
    await assert.rejects(openai.chat.completions.create({ model: AGENT_ID, messages: [{ role: "user", content: broken }] }),
      (error) => error instanceof OpenAI.BadRequestError && error.param.startsWith("messages[0]"));
    clientOf("`openai`, JavaScript").works("images");
  },

  async aiSDK() {
    const messages = [{ role: "user", content: [{ type: "text", text }, { type: "image", image: Buffer.from(IMAGE, "base64"), mediaType: "image/png" }] }];
    const provider = createOpenAI({ baseURL, apiKey: PARLEY_API_KEY });
    const compatible = createOpenAICompatible({ name: "parley", baseURL, apiKey: PARLEY_API_KEY });
    for (const model of [provider.responses(AGENT_ID), provider.chat(AGENT_ID), compatible(AGENT_ID)]) {
      sees((await generateText({ model, messages })).text);
    }
    clientOf("`@ai-sdk/openai`").works("images");
    clientOf("`@ai-sdk/openai-compatible`").works("images");
  },

  // The answer cites an attached document. A document has no URL of its own.
  async citations() {
    const data = { type: "file", data: Buffer.from(DOCUMENT, "base64"), filename: "rules.pdf", mediaType: "application/pdf" };
    const messages = [{ role: "user", content: [{ type: "text", text: "How many days of holidays does everybody have?" }, data] }];
    const provider = createOpenAI({ baseURL, apiKey: PARLEY_API_KEY });
    const cites = async (sourceType, answer, sources) => {
      assert.match(answer, /thirty/);
      assert.ok(sources.length > 0, "no sources");
      for (const source of sources) {
        assert.deepEqual([source.type, source.sourceType, source.title], ["source", sourceType, "rules.pdf"]);
        if (sourceType === "document") {
          assert.equal(source.filename, "rules.pdf");
          continue;
        }
        assert.ok(source.url.startsWith(`${PARLEY_BASE_URL}/api/sources?id=`), source.url);
        const opened = await fetch(source.url, { headers: { "x-api-key": PARLEY_API_KEY } });
        assert.match((await opened.json()).text, /thirty days/);
      }
    };
    for (const [sourceType, model] of [["document", provider(AGENT_ID)], ["url", provider.chat(AGENT_ID)]]) {
      const whole = await generateText({ model, messages });
      await cites(sourceType, whole.text, whole.sources);
      const errors = [];
      const stream = streamText({ model, messages, onError: ({ error }) => { errors.push(error); } });
      const answer = await stream.text;
      assert.deepEqual(errors, []);
      await cites(sourceType, answer, await stream.sources);
    }
  },

  async langchain() {
    for (const useResponsesApi of [false, true]) {
      const model = new ChatOpenAI({ model: AGENT_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL }, useResponsesApi });
      sees((await model.invoke([new HumanMessage({ content: [{ type: "text", text }, { type: "image_url", image_url: { url: image } }] })])).text);
    }
    clientOf("`@langchain/openai`").works("images");
  },

  async llamaIndex() {
    const llm = llamaOpenAI({ model: AGENT_ID, apiKey: PARLEY_API_KEY, baseURL });
    for (const part of [{ type: "image_url", image_url: { url: image } }, { type: "image", data: IMAGE, mimeType: "image/png" }]) {
      sees((await llm.chat({ messages: [{ role: "user", content: [{ type: "text", text }, part] }] })).message.content);
    }
    clientOf("`@llamaindex/openai`").works("images");
  },

  async useChat() {
    const api = `${PARLEY_BASE_URL}/api/agents?action=chat&id=${AGENT_ID}&format=ai-sdk`;
    const chat = new Chat({ id: "images-chat", transport: new DefaultChatTransport({ api, headers: { "x-api-key": PARLEY_API_KEY } }) });
    const said = () => {
      assert.equal(chat.error, undefined, String(chat.error));
      return chat.messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text).join("");
    };
    const files = [{ type: "file", mediaType: "image/png", filename: "dot.png", url: image }, { type: "file", mediaType: "text/plain", filename: "note.txt", url: note }];
    await chat.sendMessage({ text, files });
    sees(said());
    assert.match(said(), /note\.txt/);
    await chat.sendMessage({ text }); // the session already contains the files
    sees(said());
    await chat.regenerate();
    sees(said());
    clientOf("`ai`").works("images");
    clientOf("`@ai-sdk/react`").works("images");
  },

  async agui() {
    const url = `${PARLEY_BASE_URL}/api/agents?action=chat&id=${AGENT_ID}&format=ag-ui`;
    const agent = new HttpAgent({ url, headers: { "x-api-key": PARLEY_API_KEY }, threadId: "images-agui" });
    const content = [
      { type: "text", text }, { type: "image", source: { type: "data", value: IMAGE, mimeType: "image/png" } },
      { type: "document", source: { type: "url", value: note } },
    ];
    agent.addMessage({ id: "1", role: "user", content });
    const { result } = await agent.runAgent();
    sees(result.message);
    assert.match(result.message, /text\/plain/);
    agent.addMessage({ id: "2", role: "user", content: text }); // the client repeats the first message
    sees((await agent.runAgent()).result.message);
    clientOf("`@ag-ui/client`").works("images");
  },

  async agents() {
    const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey: PARLEY_API_KEY, useResponses: true }), tracingDisabled: true });
    const agent = new Agent({ name: "Parley", model: AGENT_ID, instructions: "Answer briefly." });
    const asked = [{ role: "user", content: [{ type: "input_text", text }, { type: "input_image", image }] }];
    sees((await runner.run(agent, asked)).finalOutput);
    clientOf("`@openai/agents`").works("images");
  },
};

const failures = [];
for (const [name, part] of Object.entries(parts)) {
  await part().catch((error) => failures.push(`${name}: ${error.stack}`));
}
assert.deepEqual(failures, []);
console.log(JSON.stringify({ parts: Object.keys(parts).length }));
