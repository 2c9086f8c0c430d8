// Calls Parley through LangChain with only the base URL, a key and an agent's ID, as LangChain's
// users call OpenAI. Prints the results, which the Go test checks.
import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { ChatOpenAI } from "@langchain/openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, FAILING_AGENT_ID, BROKEN_BASE_URL } = process.env;
const options = { model: AGENT_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL: `${PARLEY_BASE_URL}/v1` } };
const model = new ChatOpenAI(options);
const told = {};

const answer = await model.invoke("one");
told.invoke = { text: answer.content, usage: answer.usage_metadata, finish: answer.response_metadata.finish_reason, isAI: AIMessage.isInstance(answer) };

told.history = (await model.invoke([
  new SystemMessage("Be brief."), new HumanMessage("first"), new AIMessage("echo: first"), new HumanMessage("second"),
])).content;

told.stream = [];
for await (const chunk of await model.stream("one two three")) told.stream.push(chunk.content);

const chain = ChatPromptTemplate.fromMessages([["system", "You answer {who}."], ["human", "{question}"]])
  .pipe(model).pipe(new StringOutputParser());
told.chain = await chain.invoke({ who: "people", question: "a question" });
told.batch = await chain.batch([{ who: "a", question: "left" }, { who: "b", question: "right" }]);

// Calls the model with a temperature and a token limit, as most programs do.
told.cold = (await new ChatOpenAI({ ...options, temperature: 0 }).invoke("cold")).content;
const short = await new ChatOpenAI({ ...options, temperature: 0, maxTokens: 2 }).invoke("one two three");
told.short = `${short.content} ${short.response_metadata.finish_reason}`;

// A session whose history Parley keeps.
const remembering = new ChatOpenAI({ ...options, modelKwargs: { metadata: { session_id: "langchain-session" } } });
told.session = [(await remembering.invoke("once")).content, (await remembering.invoke("twice")).content];

const responses = new ChatOpenAI({ ...options, useResponsesApi: true });
const response = await responses.invoke("by responses");
told.responses = { text: response.text, id: response.id ?? response.response_metadata.id, usage: response.usage_metadata };
told.responsesStream = "";
for await (const chunk of await responses.stream("four five six")) told.responsesStream += chunk.text;

// A failed call must return its error immediately. The error must keep LangChain from retrying,
// because a retry would run the agent again.
const caught = async (task) => {
  try {
    return { text: (await task()).content };
  } catch (error) {
    return { name: error.name, status: error.status, code: error.code, message: error.message };
  }
};
told.failed = await caught(() => new ChatOpenAI({ ...options, model: FAILING_AGENT_ID }).invoke("fault 400: no"));
told.unknown = await caught(() => new ChatOpenAI({ ...options, model: "gpt-nobody" }).invoke("hello"));
told.unauthenticated = await caught(() => new ChatOpenAI({ ...options, apiKey: "ak_wrong" }).invoke("hello"));

// The connection breaks after the service has sent its response. LangChain must retry
// automatically.
told.broken = await caught(() => new ChatOpenAI({ ...options, configuration: { baseURL: `${BROKEN_BASE_URL}/v1`, defaultHeaders: { "Idempotency-Key": "langchain-1" } } }).invoke("after a break"));

console.log(JSON.stringify(told));
