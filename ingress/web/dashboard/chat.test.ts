import type { ServerEvent } from "../kit/sse";
import { equal, ok, type Test } from "../kit/check";
import { place, webAddress } from "./answer/place";
import { after, ended, newTurn, turnsOf, underWay, withRun, type Turn } from "./chat/turn";
import type { Citation, Message, Run, ToolCall } from "./types";

const citation: Citation = { id: 1, type: "web", title: "A", url: "https://a.example/", citedText: "words", startIndex: 0, endIndex: 5, documentId: null, page: null };
const call = (id: string, status: string): ToolCall => ({ id, name: "webSearch", status, input: {}, output: null, durationMs: 0 });
const run = (fields: Partial<Run> = {}): Run => ({
  id: "run_1", status: "completed", agentId: "ag_1", templateId: null, sessionId: "s", trigger: { type: "chat", automationId: null }, message: "Done [1].", output: null,
  citations: [citation], toolCalls: [call("c1", "completed")], usage: { inputTokens: 1, outputTokens: 2, costMicros: 0, model: "m" }, error: null, attempts: 1,
  idempotencyKey: "k", createdAt: "2026-11-21T09:00:00.000Z", startedAt: null, finishedAt: null, expiresAt: null, ...fields,
});

const told = (event: string, data: object): ServerEvent => ({ id: "1.1", event, data: JSON.stringify({ runId: "run_1", ...data }) });
const all = (events: ServerEvent[], from: Turn = newTurn("hello", "k")): Turn => events.reduce(after, from);

const created = told("run.created", { createdAt: "2026-11-21T09:00:00.000Z" });
const begun = [created, told("run.started", {}), told("message.delta", { text: "One " }), told("tool.started", { toolCall: call("c1", "running") }), told("citation.added", { citation })];

export const tests: Test[] = [
  {
    name: "a turn grows by its events",
    run: () => {
      const turn = all([...begun, told("message.delta", { text: "two" }), told("tool.completed", { toolCall: call("c1", "completed") })]);
      equal([turn.runId, turn.status, turn.text, turn.toolCalls.map((c) => c.status), turn.citations.length], ["run_1", "running", "One two", ["completed"], 1]);
      ok(underWay(turn), "a running turn is under way");
    },
  },
  {
    name: "a new attempt makes void what was told",
    run: () => {
      const turn = all([...begun, told("run.requires_action", { requiredAction: { kind: "approval" } }), told("run.restarted", { afterStep: 1 }), told("message.delta", { text: "Anew" })]);
      equal([turn.status, turn.text, turn.toolCalls, turn.citations, turn.requiredAction], ["running", "Anew", [], [], null]);
    },
  },
  {
    name: "a turn waits for a person",
    run: () => {
      const turn = all([...begun, told("run.requires_action", { requiredAction: { kind: "approval", name: "refund" } })]);
      equal([turn.status, turn.requiredAction?.name], ["requires_action", "refund"]);
    },
  },
  {
    name: "the end is the run as it ended",
    run: () => {
      const turn = all([...begun, told("run.completed", { run: run() })]);
      equal([turn.status, turn.text, turn.run?.usage.outputTokens, ended(turn.status), underWay(turn)], ["completed", "Done [1].", 2, true, false]);
      const cut = all([...begun, told("run.cancelled", { run: run({ status: "cancelled", message: null, citations: [] }) })]);
      equal([cut.status, cut.text, cut.citations.length], ["cancelled", "One ", 1], "what had come of a cancelled answer stays");
    },
  },
  {
    name: "events that are not known change nothing",
    run: () => {
      const before = all(begun);
      equal(after(before, told("run.dreamt", { text: "x" })), before);
    },
  },
  {
    name: "messages become turns",
    run: () => {
      const message = (role: Message["role"], content: string, runId: string, status: Run["status"]): Message => ({ id: role + runId, role, content, runId, status, createdAt: "2026-11-21T09:00:00.000Z" });
      const turns = turnsOf([message("user", "a", "run_1", "completed"), message("assistant", "A", "run_1", "completed"), message("user", "b", "run_2", "running")], new Map([["run_1", run()]]));
      equal(turns.map((t) => [t.message, t.text, t.status, t.run?.id ?? null]), [["a", "Done [1].", "completed", "run_1"], ["b", "", "running", null]]);
      equal(turns[1] && withRun(turns[1], undefined), turns[1]);
    },
  },
  {
    name: "cited words are found in their text",
    run: () => {
      equal(place("before words behind", "words"), [7, 12]);
      equal(place("before two\n  words behind", "two words"), [7, 18], "with other white space");
      equal(place("a (b) [c]", "(b)  [c]"), [2, 9], "marks of patterns are text");
      equal(place("before", "words"), null);
      equal(place("before", " "), null);
    },
  },
  {
    name: "addresses of pages of the web are followed, and no others",
    run: () => {
      equal(webAddress("https://a.example/x"), "https://a.example/x");
      for (const url of ["javascript:alert(1)", "data:text/html,x", " https://a.example", "//a.example", "/api/files", "https://", ""]) equal(webAddress(url), null, url);
    },
  },
];
