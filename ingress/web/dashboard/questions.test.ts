import { equal, type Test } from "../kit/check";
import { firstQuestions } from "./firstquestions";
import type { Endpoint, Tools } from "./types";

const on = { enabled: true };
const off = { enabled: false };
const endpoint = (name: string, sideEffect: "none" | "unsafe"): Endpoint => ({ name, description: "", method: "GET", url: "https://a.example/", sideEffect });

const what = "What can you do?";
const points = "What are the main points of the documents?";
const squares = "Compute the squares of 1 to 10 and plot them.";
const news = "Search the web for today's most important news.";

const cases: { name: string; description?: string; tools?: Tools; want: string[] }[] = [
  { name: "", want: [what] },
  { name: " Release notes ", want: [what, "Show me an example of your work as “Release notes”."] },
  { name: "A", description: "Writes release notes. Asks nothing.", want: [what, "Show me an example of this: Writes release notes."] },
  { name: "A", description: "Repeats each message: for tests.", want: [what, "Show me an example of this: Repeats each message."] },
  { name: "A", description: "Sorts\n  v1.2 tickets", want: [what, "Show me an example of this: Sorts v1.2 tickets"] },
  { name: "A", description: "x".repeat(121), want: [what, "Show me an example of your work as “A”."] },
  { name: "A", tools: { knowledge: on }, want: [what, points, "Show me an example of your work as “A”."] },
  { name: "A", tools: { knowledge: on, codeExecution: on, webSearch: on }, want: [what, points, squares] },
  { name: "A", tools: { knowledge: off, webSearch: on, codeExecution: off }, want: [what, news, "Show me an example of your work as “A”."] },
  {
    name: "A", tools: { httpRequest: { enabled: true, endpoints: [endpoint("cancelOrder", "unsafe"), endpoint("getOrder", "none")] } },
    want: [what, "Which values do you need to use getOrder?", "Show me an example of your work as “A”."],
  },
  { name: "A", tools: { httpRequest: { enabled: true, endpoints: [endpoint("cancelOrder", "unsafe")] } }, want: [what, "Show me an example of your work as “A”."] },
  { name: "A", tools: { httpRequest: { enabled: false, endpoints: [endpoint("getOrder", "none")] } }, want: [what, "Show me an example of your work as “A”."] },
];

export const tests: Test[] = [
  {
    name: "an agent without suggested questions gets first questions",
    run: () => {
      for (const { name, description = "", tools = {}, want } of cases) equal(firstQuestions({ name, description, tools }), want, JSON.stringify({ name, description, tools }));
    },
  },
];
