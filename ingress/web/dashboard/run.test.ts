import { equal, ok, type Test } from "../kit/check";
import { newScale } from "./pages/run/scale";
import { turnMessages } from "./pages/run/messages";
import { roundDurations, formatMoments, newParts, timeSpent } from "./pages/run/spans";
import { tickLabels } from "./pages/run/timeline";
import { gist } from "./pages/runs/rows";
import { runErrors, statuses, triggers, wordFor } from "./texts/values";
import { duration } from "./ui/parts";
import type { Run, Span, Timeline, ToolCall } from "./types";

const at = (ms: number): string => new Date(Date.UTC(2026, 10, 21, 9) + ms).toISOString();
const span = (kind: Span["kind"], from: number, to: number, name: string = kind): Span => ({ kind, name, attempt: 1, status: "completed", startedAt: at(from), finishedAt: at(to) });
const trace = (...spans: Span[]): Timeline => ({ runId: "run_1", status: "completed", input: { message: "q" }, spans });

const run: Run = {
  id: "run_1", status: "completed", agentId: "ag_1", templateId: null, sessionId: "s", previousRunId: null, trigger: { type: "chat", automationId: null }, message: null, output: null, citations: [], toolCalls: [],
  usage: { inputTokens: 1, outputTokens: 2, costMicros: 0, model: "m" }, error: null, finishReason: "stop", agentVersion: 1, attempts: 1, idempotencyKey: "k", createdAt: at(0), startedAt: at(1), finishedAt: at(2), expiresAt: null,
};

export const tests: Test[] = [
  {
    name: "times have as many digits as needed",
    run: () => {
      equal(formatMoments([0, 100, 200]), ["0", "+100 ms", "+200 ms"]);
      equal(formatMoments([0, 1000, 1500]), ["0", "+1.0 s", "+1.5 s"]);
      equal(formatMoments([0, 6105, 6110, 6115]), ["0", "+6.105 s", "+6.110 s", "+6.115 s"]);
      equal(formatMoments([0, 10_000, 10_500]), ["0", "+10.0 s", "+10.5 s"]);
      equal(formatMoments([0, 61_200, 61_400]), ["0", "+1 min 1.2 s", "+1 min 1.4 s"]);
      equal(formatMoments([0, 3_601_000, 3_602_000]), ["0", "+1 h 1 s", "+1 h 2 s"]);
      equal(formatMoments([0, 3_600_000, 7_200_000]), ["0", "+1 h", "+2 h"]);
    },
  },
  {
    name: "ticks after a long wait have different labels",
    run: () => {
      const t = trace(span("queue", 0, 6100), span("turn", 6100, 6126), span("tool", 6126, 6140));
      const said = formatMoments(newScale(t, 0, false).ticks.map((tick) => tick.ms));
      ok(said.length > 2, "there are ticks");
      equal(new Set(said).size, said.length, said.join(", "));
    },
  },
  {
    name: "a label near the end of the axis ends at its tick, and ticks without room for a label are omitted",
    run: () => {
      const ticks = newScale(trace(span("queue", 0, 16), span("turn", 16, 218)), 0, false).ticks;
      const labels = tickLabels({ ticks }, false);
      equal(labels.map((label) => label.words), ["0", "+50 ms", "+100 ms", "+150 ms", "+200 ms"]);
      equal(labels.map((label) => Object.keys(label.style)[0]), ["left", "left", "left", "left", "right"]);
      const close = tickLabels({ ticks: [0, 0.12, 0.6, 0.9, 0.96].map((at, i) => ({ ms: i * 100, at })) }, true);
      equal(close.map((label) => label.words), ["0", "+100 ms", "+200 ms"]);
    },
  },
  {
    name: "overlapping work counts once",
    run: () => {
      const t = trace(span("queue", 0, 79), span("attempt", 79, 612), span("turn", 79, 105), span("tool", 100, 400, "a"), span("tool", 110, 380, "b"), { ...span("wait", 400, 500), toolCallId: "c1" }, span("tool", 390, 520, "c"));
      equal(timeSpent(newParts(t, 0)), { queue: 79, turn: 26, wait: 100, client: 0, tool: 315, lost: 0 });
    },
  },
  {
    name: "the parts of an attempt add up to at most the attempt, and a tool call has its recorded duration",
    run: () => {
      const took = (t: Timeline, recorded: Record<string, number>) => {
        const calls = Object.entries(recorded).map(([id, durationMs]): ToolCall => ({ id, name: id, status: "completed", input: {}, output: {}, durationMs }));
        return newParts(t, 0, calls).map((p) => `${p.from} ${duration(p.shown)}`);
      };
      const tool = (from: number, to: number, id: string): Span => ({ ...span("tool", from, to, id), toolCallId: id });
      const attempt = span("attempt", 0, 52);
      equal(took(trace(attempt, span("turn", 0, 17), tool(17, 52, "a")), { a: 38 }), ["0 52 ms", "0 14 ms", "14 38 ms"]);
      equal(took(trace(attempt, span("turn", 0, 17), tool(17, 52, "a")), { a: 30 }), ["0 52 ms", "0 17 ms", "17 30 ms"]);
      equal(took(trace(attempt, span("turn", 0, 17), tool(17, 52, "a")), { a: 60 }), ["0 52 ms", "0 0 ms", "0 52 ms"]);
      equal(took(trace(attempt, tool(0, 20, "a"), span("turn", 20, 30), tool(30, 52, "b")), { a: 20, b: 25 }), ["0 52 ms", "0 20 ms", "20 7 ms", "27 25 ms"]);
      // Calls that ran in parallel keep their durations.
      equal(took(trace(attempt, span("turn", 0, 10), tool(10, 40, "a"), tool(12, 52, "b")), { a: 30, b: 40 }), ["0 52 ms", "0 10 ms", "10 30 ms", "12 40 ms"]);
      // A call that was lost with its worker keeps its own duration, not that of the repeated call.
      const lost: Span = { ...tool(0, 52, "a"), status: "lost" };
      equal(took(trace(attempt, lost), { a: 4 }), ["0 52 ms", "0 52 ms"]);
      equal(took(trace(span("attempt", 0, 2520), span("turn", 0, 1260), tool(1260, 2520, "a")), { a: 1260 }), ["0 2.5 s", "0 1.2 s", "1260 1.3 s"]);
    },
  },
  {
    name: "shown durations add up to at most the shown duration of the whole",
    run: () => {
      const units: Record<string, number> = { ms: 1, s: 1000, min: 60_000, h: 3_600_000 };
      const read = (text: string): number => [...text.matchAll(/([\d.]+) (ms|s|min|h)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * (units[unit ?? ""] ?? Number.NaN), 0);
      const table: [whole: number, parts: number[], shown: string[]][] = [
        [52, [17, 35], ["17 ms", "35 ms"]],
        [2520, [1260, 1260], ["1.2 s", "1.3 s"]],
        [2620, [1260, 1360], ["1.2 s", "1.4 s"]],
        [3780, [1260, 1260, 1260], ["1.2 s", "1.3 s", "1.3 s"]],
        [4560, [1540, 1510, 1510], ["1.5 s", "1.5 s", "1.5 s"]],
        [1700, [449, 1251], ["449 ms", "1.2 s"]],
        [2240, [980, 1260], ["980 ms", "1.2 s"]],
        [21_100, [10_550, 10_550], ["10 s", "11 s"]],
        [59_700, [59_600, 100], ["59 s", "100 ms"]],
        [121_900, [61_950, 59_950], ["1 min 1 s", "60 s"]],
      ];
      for (const [whole, parts, want] of table) {
        const shown = roundDurations(whole, parts.map((took) => ({ took }))).map(duration);
        const sum = shown.reduce((total, text) => total + read(text), 0);
        ok(Math.round(sum) <= Math.round(read(duration(whole))), `${duration(whole)}: ${shown.join(" + ")}`);
        equal(shown, want);
      }
      equal([1740, ...roundDurations(1740, [{ took: 999 }, { took: 741 }])].map(duration), ["1.7 s", "999 ms", "741 ms"]); // the parts are shown exactly
      // The duration of a tool call is also shown elsewhere, so it changes last.
      equal(roundDurations(2520, [{ took: 1260, fixed: true }, { took: 1260 }]).map(duration), ["1.3 s", "1.2 s"]);
      equal(roundDurations(2520, [{ took: 1260 }, { took: 1260, fixed: true }]).map(duration), ["1.2 s", "1.3 s"]);
    },
  },
  {
    name: "work that was lost with its worker is not in the model",
    run: () => {
      const lost = (s: Span): Span => ({ ...s, status: "lost" });
      const t = trace(lost(span("attempt", 0, 30, "attempt 1")), span("turn", 0, 2, "turn 1"), lost(span("turn", 2, 30, "turn 2")));
      equal(newParts(t, 0).map((p) => p.name).slice(1), ["Turn 1", "Work lost because its worker failed"]);
      equal(timeSpent(newParts(t, 0)), { queue: 0, turn: 2, wait: 0, client: 0, tool: 0, lost: 28 });
    },
  },
  {
    name: "a turn received the message, and the answers and results of the turns before it",
    run: () => {
      const call: ToolCall = { id: "a", name: "webSearch", status: "completed", input: {}, output: { found: 7 }, durationMs: 1 };
      const first: Span = { ...span("turn", 0, 1, "turn 1"), text: "I look.", toolCallIds: ["a", "gone"] };
      const lost: Span = { ...span("turn", 1, 2, "turn 2"), status: "lost" };
      const last = span("turn", 3, 4, "turn 2");
      const t = trace(first, lost, span("tool", 2, 3, "webSearch"), last);
      t.input = { message: "q", data: { n: 1 }, history: [{ message: "before", answer: "" }] };
      const read = (turn: Span) => turnMessages(t, turn, [call]).map((m) => `${m.head}: ${m.text.replace(/\s+/g, " ")}`);
      const sent = ["Earlier message: before", "Message: q", "Data of the message: { \"n\": 1 }"];
      equal(read(first), sent);
      equal(read(last), [...sent, "Answer of turn 1: I look. Calls Web search", "Result of Web search: { \"found\": 7 }"]);
      const long = turnMessages({ ...t, input: { message: "x".repeat(9000) } }, first, [])[0];
      equal([long?.text.length, long?.cut], [8000, true]);
    },
  },
  {
    name: "tools have the same name everywhere",
    run: () => {
      const t = trace(span("tool", 0, 1, "webSearch"), span("tool", 1, 2, "knowledge"), span("tool", 2, 3, "codeExecution"), span("tool", 3, 4, "getOrder"), { ...span("wait", 4, 5, "codeExecution"), toolCallId: "c5" });
      equal(newParts(t, 0).map((p) => p.name), ["Web search", "Knowledge", "Code execution", "getOrder", "Decision on Code execution"]);
      equal(gist({ ...run, status: "running", finishedAt: null, toolCalls: [{ name: "webSearch", status: "running", durationMs: 0 }] }), "Calling Web search");
    },
  },
  {
    name: "a wait for the client is no wait for a person",
    run: () => {
      const parts = newParts(trace({ ...span("wait", 0, 10), status: "waiting", finishedAt: null, message: "client_tools" }), Date.parse(at(10)));
      equal(parts.map((p) => [p.name, p.status, ...p.notes]), [["Waiting for the client", "waiting", "waiting for results of its tools"]]);
      equal(timeSpent(parts), { queue: 0, turn: 0, wait: 0, client: 10, tool: 0, lost: 0 });
    },
  },
  {
    name: "values of the API have words, and an unknown value is its own word",
    run: () => {
      equal([wordFor(statuses, "timed_out"), wordFor(runErrors, "byte_limit"), wordFor(triggers, "api")], ["timed out", "run too large", "API"]);
      equal([wordFor(triggers, "queue"), wordFor(triggers, "constructor")], ["queue", "constructor"]);
      const expired: Span = { ...span("wait", 0, 1, "pay"), status: "failed", message: "action_expired" };
      equal(newParts(trace(expired), 0).map((p) => p.notes), [["waited too long"]]);
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
