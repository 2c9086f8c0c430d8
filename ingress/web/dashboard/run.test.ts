import { equal, ok, type Test } from "../kit/check";
import { scaleOf } from "./pages/run/scale";
import { messagesOf } from "./pages/run/messages";
import { momentsOf, partsOf, spentOf } from "./pages/run/spans";
import { labelled } from "./pages/run/timeline";
import { gist } from "./pages/runs/rows";
import { runErrors, statuses, triggers, wordFor } from "./texts/values";
import type { Run, Span, Timeline } from "./types";

const at = (ms: number): string => new Date(Date.UTC(2026, 10, 21, 9) + ms).toISOString();
const span = (kind: Span["kind"], from: number, to: number, name: string = kind): Span => ({ kind, name, attempt: 1, status: "completed", startedAt: at(from), finishedAt: at(to) });
const trace = (...spans: Span[]): Timeline => ({ runId: "run_1", status: "completed", input: { message: "q" }, spans });

const run: Run = {
  id: "run_1", status: "completed", agentId: "ag_1", templateId: null, sessionId: "s", trigger: { type: "chat", automationId: null }, message: null, output: null, citations: [], toolCalls: [],
  usage: { inputTokens: 1, outputTokens: 2, costMicros: 0, model: "m" }, error: null, finishReason: "stop", agentVersion: 1, attempts: 1, idempotencyKey: "k", createdAt: at(0), startedAt: at(1), finishedAt: at(2), expiresAt: null,
};

export const tests: Test[] = [
  {
    name: "times have as many digits as needed",
    run: () => {
      equal(momentsOf([0, 100, 200]), ["0", "+100 ms", "+200 ms"]);
      equal(momentsOf([0, 1000, 1500]), ["0", "+1.0 s", "+1.5 s"]);
      equal(momentsOf([0, 6105, 6110, 6115]), ["0", "+6.105 s", "+6.110 s", "+6.115 s"]);
      equal(momentsOf([0, 10_000, 10_500]), ["0", "+10.0 s", "+10.5 s"]);
      equal(momentsOf([0, 61_200, 61_400]), ["0", "+1 min 1.2 s", "+1 min 1.4 s"]);
      equal(momentsOf([0, 3_601_000, 3_602_000]), ["0", "+1 h 1 s", "+1 h 2 s"]);
      equal(momentsOf([0, 3_600_000, 7_200_000]), ["0", "+1 h", "+2 h"]);
    },
  },
  {
    name: "ticks after a long wait have different labels",
    run: () => {
      const t = trace(span("queue", 0, 6100), span("turn", 6100, 6126), span("tool", 6126, 6140));
      const said = momentsOf(scaleOf(t, 0, false).ticks.map((tick) => tick.ms));
      ok(said.length > 2, "there are ticks");
      equal(new Set(said).size, said.length, said.join(", "));
    },
  },
  {
    name: "a label near the end of the axis ends at its tick, and ticks without room for a label are omitted",
    run: () => {
      const ticks = scaleOf(trace(span("queue", 0, 16), span("turn", 16, 218)), 0, false).ticks;
      const labels = labelled({ ticks }, false);
      equal(labels.map((label) => label.words), ["0", "+50 ms", "+100 ms", "+150 ms", "+200 ms"]);
      equal(labels.map((label) => Object.keys(label.style)[0]), ["left", "left", "left", "left", "right"]);
      const close = labelled({ ticks: [0, 0.12, 0.6, 0.9, 0.96].map((at, i) => ({ ms: i * 100, at })) }, true);
      equal(close.map((label) => label.words), ["0", "+100 ms", "+200 ms"]);
    },
  },
  {
    name: "overlapping work counts once",
    run: () => {
      const t = trace(span("queue", 0, 79), span("attempt", 79, 612), span("turn", 79, 105), span("tool", 100, 400, "a"), span("tool", 110, 380, "b"), { ...span("wait", 400, 500), toolCallId: "c1" }, span("tool", 390, 520, "c"));
      equal(spentOf(partsOf(t, 0)), { queue: 79, turn: 26, wait: 100, client: 0, tool: 315, lost: 0 });
    },
  },
  {
    name: "work that was lost with its worker is not in the model",
    run: () => {
      const lost = (s: Span): Span => ({ ...s, status: "lost" });
      const t = trace(lost(span("attempt", 0, 30, "attempt 1")), span("turn", 0, 2, "turn 1"), lost(span("turn", 2, 30, "turn 2")));
      equal(partsOf(t, 0).map((p) => p.name).slice(1), ["Turn 1", "Work lost because its worker failed"]);
      equal(spentOf(partsOf(t, 0)), { queue: 0, turn: 2, wait: 0, client: 0, tool: 0, lost: 28 });
    },
  },
  {
    name: "a turn received the message, and the answers and results of the turns before it",
    run: () => {
      const call = { id: "a", name: "webSearch", status: "completed", input: {}, output: { found: 7 }, durationMs: 1 };
      const first: Span = { ...span("turn", 0, 1, "turn 1"), text: "I look.", toolCallIds: ["a", "gone"] };
      const lost: Span = { ...span("turn", 1, 2, "turn 2"), status: "lost" };
      const last = span("turn", 3, 4, "turn 2");
      const t = trace(first, lost, span("tool", 2, 3, "webSearch"), last);
      t.input = { message: "q", data: { n: 1 }, history: [{ message: "before", answer: "" }] };
      const read = (turn: Span) => messagesOf(t, turn, [call]).map((m) => `${m.head}: ${m.text.replace(/\s+/g, " ")}`);
      const sent = ["Earlier message: before", "Message: q", "Data of the message: { \"n\": 1 }"];
      equal(read(first), sent);
      equal(read(last), [...sent, "Answer of turn 1: I look. Calls Web search", "Result of Web search: { \"found\": 7 }"]);
      const long = messagesOf({ ...t, input: { message: "x".repeat(9000) } }, first, [])[0];
      equal([long?.text.length, long?.cut], [8000, true]);
    },
  },
  {
    name: "tools have the same name everywhere",
    run: () => {
      const t = trace(span("tool", 0, 1, "webSearch"), span("tool", 1, 2, "knowledge"), span("tool", 2, 3, "codeExecution"), span("tool", 3, 4, "getOrder"), { ...span("wait", 4, 5, "codeExecution"), toolCallId: "c5" });
      equal(partsOf(t, 0).map((p) => p.name), ["Web search", "Knowledge", "Code execution", "getOrder", "Decision on Code execution"]);
      equal(gist({ ...run, status: "running", finishedAt: null, toolCalls: [{ name: "webSearch", status: "running", durationMs: 0 }] }), "Calling Web search");
    },
  },
  {
    name: "a wait for the client is no wait for a person",
    run: () => {
      const parts = partsOf(trace({ ...span("wait", 0, 10), status: "waiting", finishedAt: null, message: "client_tools" }), Date.parse(at(10)));
      equal(parts.map((p) => [p.name, p.status, ...p.notes]), [["Waiting for the client", "waiting", "waiting for results of its tools"]]);
      equal(spentOf(parts), { queue: 0, turn: 0, wait: 0, client: 10, tool: 0, lost: 0 });
    },
  },
  {
    name: "values of the API have words, and an unknown value is its own word",
    run: () => {
      equal([wordFor(statuses, "timed_out"), wordFor(runErrors, "byte_limit"), wordFor(triggers, "api")], ["timed out", "run too large", "API"]);
      equal([wordFor(triggers, "queue"), wordFor(triggers, "constructor")], ["queue", "constructor"]);
      const expired: Span = { ...span("wait", 0, 1, "pay"), status: "failed", message: "action_expired" };
      equal(partsOf(trace(expired), 0).map((p) => p.notes), [["waited too long"]]);
    },
  },
  {
    name: "a row starts with the answer, not with a note on it",
    run: () => {
      const of = (message: string) => gist({ ...run, message });
      equal(of("(Offline model: fixed rules, no language model.)\n\n**Hello.** What can I do?"), "Hello. What can I do?");
      equal(of("(Only this.)"), "(Only this.)");
      equal(of("(By the way) it works.\nYes."), "(By the way) it works. Yes.");
    },
  },
  {
    name: "a row contains the answer's text without Markdown marks",
    run: () => {
      const of = (message: string) => gist({ ...run, message });
      const same = ["12 * 12 = 144", "3 > 2 | C# #1 * 5*", "2026. That was the year.", "1. Tea 2. Milk", "- Tea", "It costs `5 as of now."];
      for (const message of same) equal(of(message), message);
      equal(of("## **Twelve** times *twelve*\n\n`a * b` is\n> 144 [1]"), "Twelve times twelve a * b is 144 [1]");
      equal(of("| a | b |\n|---|---|\n| 1 | 2 > 1 |\n\n3. Tea\n4. Milk\n\n```js\nx * 2 # y\n```"), "a b 1 2 > 1 3. Tea 4. Milk x * 2 # y");
    },
  },
];
