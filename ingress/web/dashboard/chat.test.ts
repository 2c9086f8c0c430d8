import { h, render } from "preact";
import { ApiError } from "./api";
import type { ServerEvent } from "../kit/sse";
import { equal, ok, type Test } from "../kit/check";
import { Answer } from "./answer/answer";
import { findQuote, webAddress } from "./answer/quote";
import { ToolCalls, type ShownCall } from "./answer/toolcalls";
import { askNext, demoSession, readDraft, keepDemo, keepDraft, keptLimit } from "./chat/kept";
import { noteLimit } from "./chat/limit";
import { messageBody, ChatSession } from "./chat/session";
import { TurnView } from "./chat/turnview";
import { after, ended, newestBranch, newTurn, messageTitle, buildTurns, underWay, withRun, type Turn } from "./chat/turn";
import type { Citation, Message, Run, ToolCall } from "./types";
import { checkFile } from "./ui/uploads";

const citation: Citation = { id: 1, type: "web", title: "A", url: "https://a.example/", citedText: "words", startIndex: 0, endIndex: 5, documentId: null, page: null };
const call = (id: string, status: ToolCall["status"]): ToolCall => ({ id, name: "webSearch", status, input: {}, output: null, durationMs: 0 });
const run = (fields: Partial<Run> = {}): Run => ({
  id: "run_1", status: "completed", agentId: "ag_1", templateId: null, sessionId: "s", previousRunId: null, trigger: { type: "chat", automationId: null }, message: "Done [1].", output: null,
  citations: [citation], toolCalls: [call("c1", "completed")], usage: { inputTokens: 1, outputTokens: 2, costMicros: 0, model: "m" }, error: null, finishReason: "stop", agentVersion: 1, attempts: 1,
  idempotencyKey: "k", createdAt: "2026-11-21T09:00:00.000Z", startedAt: null, finishedAt: null, expiresAt: null, ...fields,
});

const newEvent = (event: string, data: object): ServerEvent => ({ id: "1.1", event, data: JSON.stringify({ runId: "run_1", ...data }) });
const all = (events: ServerEvent[], from: Turn = newTurn("hello", "k")): Turn => events.reduce(after, from);

const created = newEvent("run.created", { createdAt: "2026-11-21T09:00:00.000Z" });
const begun = [created, newEvent("run.started", {}), newEvent("message.delta", { text: "One " }), newEvent("tool.started", { toolCall: call("c1", "running") }), newEvent("citation.added", { citation })];

/** Returns a run in the short form that lists contain. */
const inShort = (whole: Run) => ({
  ...whole, output: undefined, message: whole.message?.slice(0, 4), messageCut: true, citations: whole.citations.length,
  toolCalls: whole.toolCalls.map(({ name, status, durationMs }) => ({ name, status, durationMs })),
});

/** A fake service. It accepts messages. Tests make it send events. */
class Service {
  asked: string[] = [];
  runs: Run[] = [];
  private readonly real = globalThis.fetch;
  private readonly waiting = new Map<string, (answer: Response) => void>();

  constructor() {
    globalThis.fetch = (input, init) => {
      const [path = ""] = String(input).split("?");
      this.asked.push(`${init?.method ?? "GET"} ${path}`);
      if (path === "/api/runs" && init?.method === "POST") return Promise.resolve(Response.json(run({ status: "cancelled", message: null })));
      const whole = this.runs.find((each) => String(input).includes(`id=${each.id}`));
      if (path === "/api/runs") return Promise.resolve(Response.json(whole ?? { data: this.runs.map(inShort), hasMore: false, nextCursor: null }));
      return new Promise((resolve, reject) => {
        this.waiting.set(path, resolve);
        init?.signal?.addEventListener("abort", () => {
          if (this.waiting.get(path) === resolve) this.waiting.delete(path);
          reject(new DOMException("gone", "AbortError"));
        });
      });
    };
  }

  /** Responds to the request that is pending, or else to the next request. */
  async answer(path: string, answer: Response): Promise<void> {
    while (!this.waiting.has(path)) await new Promise((resolve) => setTimeout(resolve));
    this.waiting.get(path)?.(answer);
    this.waiting.delete(path);
  }

  /** Begins the stream of a message's run. The stream stays open. */
  async startStream(...events: ServerEvent[]): Promise<void> {
    const text = events.map((e) => `id: ${e.id}\nevent: ${e.event}\ndata: ${e.data}\n\n`).join("");
    const body = new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode(text)) });
    await this.answer("/api/agents", new Response(body, { headers: { "content-type": "text/event-stream" } }));
  }

  end(): void {
    globalThis.fetch = this.real;
    sessionStorage.clear();
  }
}

/** Runs a test with a session whose service does nothing automatically. */
async function withService(body: (service: Service, session: ChatSession) => Promise<void>): Promise<void> {
  const service = new Service();
  const session = new ChatSession({ agentId: "ag_1" }, "s");
  try {
    await body(service, session);
  } finally {
    session.close();
    service.end();
  }
}

/** Waits until the session reaches a state. */
const until = (session: ChatSession, wanted: () => boolean): Promise<void> => new Promise((resolve, reject) => {
  const late = setTimeout(() => reject(new Error(`condition was never true: ${wanted}`)), 10_000);
  const look = () => {
    if (!wanted()) return;
    clearTimeout(late);
    session.removeEventListener("change", look);
    resolve();
  };
  session.addEventListener("change", look);
  look();
});

const time = (second: number): string => new Date(Date.UTC(2026, 10, 21, 9, 0, second)).toISOString();

const only = (session: ChatSession): Turn => {
  equal(session.turns.length, 1, "one turn is shown");
  return session.turns[0] ?? newTurn("", null);
};

/**
 * Returns the turn of a run that continues another run, with the fields that newestBranch reads.
 */
const turnAfter = (runId: string | null, previousRunId?: string | null): Turn => ({ ...newTurn("m", runId), runId, previousRunId });

export const tests: Test[] = [
  {
    name: "messages from another window are added in order, and none are missing between those shown",
    run: () => withService(async (service, session) => {
      const asked = (n: number): Message => ({ id: `m_${n}`, role: "user", content: `${n}`, runId: `run_${n}`, previousRunId: null, createdAt: time(n), status: "completed" });
      const refresh = async (numbers: number[], hasMore: boolean) => {
        service.runs = numbers.map((n) => run({ id: `run_${n}`, toolCalls: [], createdAt: time(n) }));
        const done = session.refresh();
        await service.answer("/api/sessions", Response.json({ messages: numbers.map(asked), hasMore, nextCursor: "older" }));
        await done;
        return [session.turns.map((t) => t.runId?.slice(4) ?? t.message).join(" "), session.hasMore];
      };
      session.turns = [{ ...turnAfter("run_2", null), createdAt: time(2), status: "completed" }];
      equal(await refresh([1, 2, 3], false), ["1 2 3", false]);
      session.turns.push({ ...newTurn("refused", "k", time(0)), problem: new ApiError(429, "rate_limited", "") });
      equal(await refresh([2, 3, 4], true), ["1 2 3 4 refused", false]);
      equal(await refresh([8, 9], true), ["8 9 refused", true]);
      const before = service.asked.length;
      await session.refresh();
      equal(service.asked.slice(before), ["GET /api/runs"], "known runs need no messages");
    }),
  },
  {
    name: "a message names its attachments, and a turn keeps those of its run",
    run() {
      const sent = { fileId: "file_1", name: "a.png", mediaType: "image/png", bytes: 3 };
      equal(messageBody("s", "hello", [sent]), { sessionId: "s", message: "hello", attachments: [{ fileId: "file_1" }], stream: true });
      equal(messageBody("s", "hello"), { sessionId: "s", message: "hello", stream: true });
      equal(withRun(newTurn("hello", "k"), run({ attachments: [sent] })).attachments, [sent]);
      equal(withRun({ ...newTurn("hello", "k"), attachments: [sent] }, run()).attachments, [sent]);
      ok(checkFile({ size: (20 << 20) + 1 })?.includes("20 MiB") === true, "a fault names the limit");
      equal([checkFile({ size: 0 }), checkFile({ size: 20 << 20 })], ["The file is empty.", undefined]);
    },
  },
  {
    name: "the newest branch has the turns that the last one continues",
    run: () => {
      const branch = (...turns: Turn[]) => newestBranch(turns).map((t) => t.runId).join(" ");
      const [first, second, edited] = [turnAfter("1", null), turnAfter("2", "1"), turnAfter("3", "1")];
      equal(branch(first, second), "1 2", "no branches");
      equal(branch(first, second, edited), "1 3", "an edited message");
      equal(branch(first, second, edited, turnAfter("4")), "1 3 4", "a message that was sent here");
      equal(branch(first, second, edited, turnAfter(null)), "1 3 ", "a message that has no run yet");
      equal(branch(first, second, turnAfter("3", null)), "3", "another first message");
    },
  },
  {
    name: "answers come from the messages and tool calls from the runs, because lists truncate both",
    run: () => withService(async (service, session) => {
      service.runs = [run()];
      const said = (role: Message["role"], content: string): Message => ({
        id: role, role, content, runId: "run_1", previousRunId: null, status: "completed", createdAt: "2026-11-21T09:00:00.000Z", citations: role === "user" ? undefined : [citation],
      } as Message);
      const opened = session.open(true);
      await service.answer("/api/sessions", Response.json({ id: "s", messages: [said("user", "a"), said("assistant", "Done [1].")], hasMore: false, nextCursor: null }));
      await opened;
      await until(session, () => only(session).toolCalls.length > 0);
      const turn = only(session);
      equal([turn.text, turn.toolCalls, turn.citations, turn.run?.id], ["Done [1].", [call("c1", "completed")], [citation], "run_1"]);
    }),
  },
  {
    name: "a lost connection is reported until the service responds, and then that the answer is being resumed",
    run: () => withService(async (service, session) => {
      const stream = (text: string, ends: boolean) => new Response(new ReadableStream({
        start: (to) => {
          to.enqueue(new TextEncoder().encode(text));
          if (ends) setTimeout(() => to.error(new TypeError("network error")));
        },
      }), { headers: { "content-type": "text/event-stream" } });
      const box = document.createElement("div");
      const shown = (): string => {
        render(h(TurnView, { turn: only(session), session, onAsk: () => {}, last: true }), box);
        return box.textContent ?? "";
      };
      session.send("hello");
      await service.answer("/api/agents", stream(`id: 0.1\nevent: run.created\ndata: ${created.data}\n\n`, true));
      await until(session, () => only(session).cutOff === "lost");
      ok(/Connection lost/.test(shown()), shown());
      await service.answer("/api/agents", stream(": ping\n\n", false)); // as if the run waited for another worker
      await until(session, () => only(session).cutOff === "resuming");
      ok(!/Connection lost/.test(shown()) && /Resuming the answer/.test(shown()), shown());
      render(null, box);
    }),
  },
  {
    name: "the second click of a double click does not stop the run",
    run: () => withService(async (service, session) => {
      session.send("hello");
      await session.stop(only(session));
      ok(!only(session).stopping, "the run is not stopped before it is accepted");
      await service.startStream(created);
      await until(session, () => only(session).runId !== null);
      await session.stop(only(session));
      equal([service.asked, only(session).status], [["POST /api/agents"], "queued"], "nor after that");
    }),
  },
  {
    name: "a message that is stopped before it is accepted is cancelled after it is accepted",
    run: () => withService(async (service, session) => {
      session.send("hello");
      session.sentAt = 0; // more than half a second ago
      await session.stop(only(session));
      ok(only(session).stopping && underWay(only(session)), "the turn stays");
      const later = new ChatSession(session.target, session.id);
      await later.open(false);
      ok(only(later).stopping, "after a reload, too");
      later.close();
      equal(service.asked.filter((a) => a === "POST /api/runs"), [], "nothing is cancelled before there is a run");
      session.close();
      await session.open(false);
      await service.startStream(created);
      await until(session, () => only(session).status === "cancelled");
      equal(service.asked.filter((a) => a === "POST /api/runs"), ["POST /api/runs"]);
    }),
  },
  {
    name: "a message that is sent while its session loads stays",
    run: () => withService(async (service, session) => {
      const opened = session.open(true);
      session.send("second");
      const first: Message = { id: "m1", role: "user", content: "first", runId: "run_0", previousRunId: null, status: "completed", createdAt: "2026-11-21T09:00:00.000Z" };
      await service.answer("/api/sessions", Response.json({ messages: [first], hasMore: false, nextCursor: null }));
      await opened;
      equal(session.turns.map((t) => t.message), ["first", "second"]);
      equal(service.asked.filter((a) => a === "POST /api/agents").length, 1, "it is sent once");
    }),
  },
  {
    name: "activity is shown before the first event",
    run: () => withService(async (_, session) => {
      const began = performance.now();
      session.send("hello");
      await until(session, () => session.turns.length === 1);
      const box = document.createElement("div");
      render(h(TurnView, { turn: only(session), session, onAsk: () => {}, last: true }), box);
      ok(/Sending/.test(box.textContent ?? ""), "Sending is shown");
      ok(performance.now() - began < 300, "within 300 ms");
      for (const event of [created, newEvent("run.started", {}), newEvent("message.delta", { text: "\n" })]) session.turns = session.turns.map((t) => after(t, event));
      render(h(TurnView, { turn: only(session), session, onAsk: () => {}, last: true }), box);
      ok(/Thinking/.test(box.textContent ?? ""), "Thinking is shown until text arrives");
      render(null, box);
    }),
  },
  {
    name: "a limit ends at the service's time, also after a reload",
    run: () => withService(async (service, session) => {
      const before = Date.now();
      session.send("hello");
      await service.answer("/api/agents", Response.json({ code: "rate_limited", detail: "Later." }, { status: 429, headers: { "retry-after": "30" } }));
      await until(session, () => only(session).problem !== null);
      const { againAt } = only(session);
      ok(againAt !== null && againAt >= before + 30_000 && againAt <= Date.now() + 30_000, `again at ${againAt}`);
      keepDemo("ag_1", { sessionId: "s", turns: session.turns });
      equal(demoSession("ag_1")?.turns[0]?.againAt, againAt);
      noteLimit(new Headers({ "ratelimit": `"demo";r=0;t=30`, "ratelimit-policy": `"demo";q=10;w=60` }));
      const kept = keptLimit();
      equal([kept?.left, kept?.most], [0, 10]);
      ok(kept !== null && kept.more >= before + 30_000, "the time is stored");
    }),
  },
  {
    name: "a refused message waits for a person, also after a reload",
    run: () => withService(async (service, session) => {
      session.send("hello");
      await service.answer("/api/agents", Response.json({ code: "budget_exceeded", detail: "Used up." }, { status: 429, headers: { "retry-after": "30" } }));
      await until(session, () => only(session).problem !== null);
      const { againAt } = only(session);
      session.close();
      const later = new ChatSession(session.target, session.id);
      await later.open(false);
      equal([only(later).problem?.code, only(later).againAt, underWay(only(later))], ["budget_exceeded", againAt, false]);
      equal(service.asked, ["POST /api/agents"], "nothing is sent automatically");
      later.resend(only(later));
      await service.answer("/api/agents", new Response("no gateway", { status: 502 }));
      await until(later, () => only(later).problem?.status === 502);
      later.close();
      const last = new ChatSession(session.target, session.id);
      await last.open(false);
      ok(underWay(only(last)), "a message that may have been accepted is under way");
      await service.answer("/api/agents", new Response("no gateway", { status: 502 }));
      equal(service.asked.length, 3, "and is requested again");
      last.drop(only(last));
      last.close();
      equal(sessionStorage.length, 0, "a discarded message is forgotten");
    }),
  },
  {
    name: "a long wait can be ended by a retry, and its end is shown",
    run: () => withService(async (service, session) => {
      const detail = "the budget of 0 runs per month of the agent \"Shop\" (ag_1) is used up; raise its limit with PUT /api/budgets, or wait for its next period at 2026-12-01T00:00:00Z (bud_1)";
      const box = document.createElement("div");
      const shown = async (seconds: number): Promise<[string, boolean | undefined]> => {
        const answer = Response.json({ code: "budget_exceeded", detail }, { status: 429, headers: { "retry-after": String(seconds) } });
        await service.answer("/api/agents", answer);
        await until(session, () => only(session).problem !== null);
        render(h(TurnView, { turn: only(session), session, onAsk: () => {}, last: true }), box);
        const words: [string, boolean | undefined] = [box.textContent ?? "", box.querySelector("button")?.disabled];
        render(null, box);
        return words;
      };
      session.send("hello");
      const [long, heldLong] = await shown(8 * 86_400 - 60);
      ok(/The budget of 0 runs per month of the agent "Shop" is used up\. Ask an admin to raise the budget\.The limit resets in 8 days\. .*Send againDiscard/.test(long), long);
      session.resend(only(session));
      const [brief, heldBrief] = await shown(60);
      ok(/Send again in (60|59) s/.test(brief), brief);
      equal([heldLong, heldBrief], [false, true]);
    }),
  },
  {
    name: "a draft is stored under its session's name",
    run: () => {
      keepDraft("a.new", "half a sen");
      equal([readDraft("a.new"), readDraft("b.new")], ["half a sen", ""]);
      keepDraft("a.new", "");
      equal([readDraft("a.new"), sessionStorage.length], ["", 0]);
    },
  },
  {
    name: "the sources of an answer are numbered from 1, in the order of their citations",
    run: () => {
      const box = document.createElement("div");
      const citations = [{ ...citation, id: 7, title: "B" }, { ...citation, id: 3 }, { ...citation, id: 7, title: "B" }];
      render(h(Answer, { text: "One [7] two [3] three [7]", citations }), box);
      const shown = [...box.querySelectorAll("p .cite")].map((e) => [e.textContent, e.getAttribute("aria-label")]);
      equal(shown, [["1", "Source 1: B"], ["2", "Source 2: A"], ["1", "Source 1: B"]]);
      equal([...box.querySelectorAll("li")].map((e) => [e.querySelector(".cite")?.textContent, e.querySelector(".source-name")?.textContent]), [["1", "B"], ["2", "A"]]);
      render(null, box);
    },
  },
  {
    name: "a question about a document keeps the text that a person has typed",
    run: () => {
      askNext("user", "agent", "What is in a.md?");
      askNext("user", "agent", "What is in b.md?");
      equal(readDraft("user.agent.new"), "What is in b.md?", "a question that was not changed is replaced");
      keepDraft("user.agent.new", "half a sen");
      askNext("user", "agent", "What is in c.md?");
      equal(readDraft("user.agent.new"), "What is in c.md?\n\nhalf a sen");
      keepDraft("user.agent.new", "");
    },
  },
  {
    name: "an answer that cannot be rendered is shown as plain text",
    run: async () => {
      const { error } = console;
      const said: unknown[] = [];
      console.error = (...words) => said.push(words);
      const box = document.createElement("div");
      try {
        const broken = { ...citation, get title(): string { throw new Error("broken"); } };
        render(h(Answer, { text: "One **two** [1]", citations: [broken] }), box);
        await new Promise((resolve) => requestAnimationFrame(resolve));
        equal([box.textContent, said.length], ["One **two** [1]", 1]);
        render(h(Answer, { text: "One **two** [1] three", citations: [broken] }), box);
        equal([box.textContent, said.length], ["One **two** [1] three", 1], "the text is complete, and one error was logged");
      } finally {
        console.error = error;
        render(null, box);
      }
    },
  },
  {
    name: "events extend a turn",
    run: () => {
      const turn = all([...begun, newEvent("message.delta", { text: "two" }), newEvent("tool.completed", { toolCall: call("c1", "completed") })]);
      equal([turn.runId, turn.status, turn.text, turn.toolCalls.map((c) => c.status), turn.citations.length], ["run_1", "running", "One two", ["completed"], 1]);
      ok(underWay(turn), "a running turn is under way");
    },
  },
  {
    name: "a new attempt voids the events of the previous one",
    run: () => {
      const turn = all([...begun, newEvent("run.requires_action", { requiredAction: { kind: "approval" } }), newEvent("run.restarted", { afterStep: 1 }), newEvent("message.delta", { text: "Again" })]);
      equal([turn.status, turn.text, turn.toolCalls, turn.citations, turn.requiredAction], ["running", "Again", [], [], null]);
    },
  },
  {
    name: "a turn can require an action",
    run: () => {
      const turn = all([...begun, newEvent("run.requires_action", { requiredAction: { kind: "approval", name: "refund" } })]);
      equal([turn.status, turn.requiredAction?.name], ["requires_action", "refund"]);
    },
  },
  {
    name: "the last event contains the finished run",
    run: () => {
      const turn = all([...begun, newEvent("run.completed", { run: run() })]);
      equal([turn.status, turn.text, turn.run?.usage.outputTokens, ended(turn.status), underWay(turn)], ["completed", "Done [1].", 2, true, false]);
      const cut = all([...begun, newEvent("run.cancelled", { run: run({ status: "cancelled", message: null, citations: [] }) })]);
      equal([cut.status, cut.text, cut.citations.length], ["cancelled", "One ", 1], "the text of a cancelled answer stays");
    },
  },
  {
    name: "unknown events change nothing",
    run: () => {
      const before = all(begun);
      equal(after(before, newEvent("run.dreamt", { text: "x" })), before);
    },
  },
  {
    name: "messages are converted to turns",
    run: () => {
      const message = (role: Message["role"], content: string, runId: string, status: Run["status"]): Message => ({ id: role + runId, role, content, runId, previousRunId: null, status, createdAt: "2026-11-21T09:00:00.000Z" });
      const turns = buildTurns([message("user", "a", "run_1", "completed"), message("assistant", "A", "run_1", "completed"), message("user", "b", "run_2", "running")], new Map([["run_1", run()]]));
      equal(turns.map((t) => [t.message, t.text, t.status, t.run?.id ?? null]), [["a", "A", "completed", "run_1"], ["b", "", "running", null]], "the text is that of the message, because lists may truncate that of the run");
      equal(turns[1] && withRun(turns[1], undefined), turns[1]);
      const file = { fileId: "file_1", name: "a.png", mediaType: "image/png", bytes: 3 };
      const [only] = buildTurns([{ ...message("user", "", "run_1", "completed"), attachments: [file] }], new Map([["run_1", run()]]));
      equal([only?.attachments, messageTitle(only?.message ?? "?", only?.attachments), messageTitle("hello", [file]), messageTitle("```python\nimport time\n```\n"), messageTitle("```")], [[file], "a.png", "hello", "import time", "```"], "a message without text is named after its files");
    },
  },
  {
    name: "a completed run shows its failed calls without emphasis",
    run: () => {
      const ends = (completed: boolean, ...statuses: ShownCall["status"][]) => {
        const box = document.createElement("div");
        render(h(ToolCalls, { calls: statuses.map((status, i) => ({ ...call(`c${i}`, "running"), status })), completed }), box);
        const shown = [...box.querySelectorAll(".call-end > :last-child")].map((e) => [e.textContent, e.className]);
        render(null, box);
        return shown;
      };
      equal(ends(true, "completed", "failed"), [["completed", "quiet small"], ["failed", "quiet small"]]);
      equal(ends(false, "completed", "failed"), [["completed", "quiet small"], ["failed", "status bad"]], "of another run");
      equal(ends(true, "running", "waiting"), [["running", "status busy"], ["waiting", "status warn"]], "that have not failed");
    },
  },
  {
    name: "cited words are located in their text",
    run: () => {
      equal(findQuote("before words after", "words"), [7, 12]);
      equal(findQuote("before two\n  words after", "two words"), [7, 18], "with other white space");
      equal(findQuote("a (b) [c]", "(b)  [c]"), [2, 9], "marks of patterns are text");
      equal(findQuote("before", "words"), null);
      equal(findQuote("before", " "), null);
    },
  },
  {
    name: "only web addresses become links",
    run: () => {
      equal(webAddress("https://a.example/x"), "https://a.example/x");
      for (const url of ["javascript:alert(1)", "data:text/html,x", " https://a.example", "//a.example", "/api/files", "https://", ""]) equal(webAddress(url), null, url);
    },
  },
];
