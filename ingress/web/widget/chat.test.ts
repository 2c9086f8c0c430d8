import { equal, ok, type Test } from "../kit/check";
import type { Citation } from "../kit/markdown";
import type { ServerEvent } from "../kit/sse";
import { Answer } from "./answer";
import { Chat } from "./chat";
import { Store, unguessable, type Transcript } from "./record";
import type { Service } from "./service";
import { Texts } from "./texts";
import { View } from "./view";

const texts = new Texts("en");

interface Reported {
  name: string;
  detail: Record<string, unknown>;
}

/**
 * Returns a chat that receives the given events. The returned promise "ended" is fulfilled when the
 * chat reports anything other than a message.
 */
function newChat(events: [string, unknown][], store = new Store("sessionStorage", unguessable())) {
  const view = new View({ title: "T", greeting: "", inline: true, suggestions: [], language: "en" }, texts, { send: () => false, renew: () => {}, stop: () => {}, opened: () => {} });
  const reported: Reported[] = [];
  let over = () => {};
  const ended = new Promise<void>((resolve) => (over = resolve));
  async function* chat(): AsyncGenerator<ServerEvent> {
    for (const [i, [event, data]] of events.entries()) yield { id: String(i), event, data: JSON.stringify(data) };
  }
  const stopped: string[] = [];
  const cancel = (run: string): Promise<void> => Promise.resolve(void stopped.push(run));
  const service = { chat, cancel } as unknown as Service;
  const made = new Chat(service, store, view, texts, (name, detail) => {
    reported.push({ name, detail });
    if (name !== "message") over();
  });
  const log = (): string => view.panel.querySelector(".log")?.textContent ?? "";
  return { chat: made, reported, ended, log, store, stopped };
}

/** Records the console output while a function runs. Returns the number of messages. */
async function quietly(run: () => void | Promise<void>): Promise<number> {
  const { error } = console;
  let said = 0;
  console.error = () => void said++;
  try {
    await run();
  } finally {
    console.error = error;
  }
  return said;
}

export const tests: Test[] = [
  {
    name: "it needs only the name and status of tools",
    async run() {
      const { chat, reported, ended, log } = newChat([
        ["run.started", {}],
        ["tool.started", { toolCall: { name: "webSearch", status: "running" } }],
        ["tool.completed", { toolCall: { name: "webSearch", status: "completed" } }],
        ["run.requires_action", { requiredAction: { toolCalls: [{ name: "pay" }] } }],
        ["message.delta", { text: "Half" }],
        ["run.completed", { run: { id: "run_1", status: "completed", message: "Whole.", citations: [], toolCalls: [{ name: "webSearch", status: "completed" }] } }],
      ]);
      ok(chat.send("Hello"), "the message is not sent");
      await ended;
      chat.leave();
      equal(reported.map((t) => t.name), ["message", "answer"]);
      ok(log().endsWith("Hello" + "Answer:Whole."), log());
    },
  },
  {
    name: "an answer that cannot be rendered is shown as plain text, and the next message is sent",
    async run() {
      const answer = new Answer(texts);
      const said = await quietly(() => {
        answer.show("a **b** <i>", [null as never], false, "why");
        answer.show("a **b** <i>", [], true);
      });
      equal([said, answer.node.querySelector("strong")?.textContent], [1, "b"], "later text is rendered again");
      await quietly(() => answer.show("a **b** <i>", [null as never], false));
      equal([answer.node.querySelector(".answer")?.textContent, answer.node.querySelector(".note")?.textContent], ["a **b** <i>", "why"]);

      const { chat, reported, ended, log } = newChat([["run.completed", { run: { message: "type \\`` now", citations: [null, { id: "x" }] } }]]);
      chat.send("1");
      await ended;
      equal([reported.at(-1)?.name, log().endsWith("type `` now"), chat.send("2")], ["answer", true, true]);
      chat.leave();
    },
  },
  {
    name: "a stream without a last event does not leave the chat waiting",
    async run() {
      const { chat, reported, ended, store } = newChat([["message.delta", { text: "Half" }]]);
      chat.send("1");
      await ended;
      const { pending } = store.get("transcript") as Transcript;
      equal([reported.at(-1)?.name, pending?.answer, pending?.lastEventId, chat.send("2")], ["error", "", "", true]);
      chat.leave();
    },
  },
  {
    name: "an answer that is stopped before its run is known is cancelled as soon as it is known, once",
    async run() {
      const { chat, reported, ended, log, store, stopped } = newChat([
        ["run.created", { runId: "run_1" }],
        ["message.delta", { runId: "run_1", text: "Half" }],
        ["run.cancelled", { runId: "run_1", run: { status: "cancelled", message: "Half", citations: [] } }],
      ]);
      chat.send("1");
      chat.cancel();
      equal(stopped, [], "nothing is cancelled before there is a run");
      await ended;
      equal([stopped, reported.at(-1)?.name, log().endsWith("Answer:HalfAnswer stopped.")], [["run_1"], "error", true], log());
      equal((store.get("transcript") as Transcript).entries.at(-1)?.stopped, true, "the transcript knows that the answer was stopped");
      chat.send("2");
      chat.leave();
      equal(stopped.length, 1, "the next answer is not cancelled");
    },
  },
  {
    name: "the button stops a pending answer, but not with the second click of a double click",
    async run() {
      let stopped = 0;
      const view = new View({ title: "T", greeting: "", inline: true, suggestions: [], language: "de" }, new Texts("de"), { send: () => false, renew: () => {}, stop: () => stopped++, opened: () => {} });
      document.body.append(view.panel);
      const button = view.form.querySelector("button")!;
      const { now } = performance;
      let clock = 1000;
      performance.now = () => clock;
      try {
        equal(button.ariaLabel, "Senden");
        view.wait(true);
        button.click();
        equal([button.ariaLabel, stopped], ["Anhalten", 0]);
        clock += 501;
        button.click();
        equal(stopped, 1);
        view.wait(false);
        button.click();
        equal([button.ariaLabel, stopped], ["Senden", 1]);
      } finally {
        performance.now = now;
        view.panel.remove();
      }
    },
  },
  {
    name: "sources are numbered from 1 in the order in which they are cited",
    run() {
      const cited = (id: number, citedText: string) => ({ id, citedText, title: `T${id}`, url: "", documentId: "doc_1", page: null }) as unknown as Citation;
      const answer = new Answer(texts);
      answer.show("a [5] b [2] c [5]", [cited(5, "x"), cited(2, "y"), cited(5, "z")], false);
      equal([...answer.node.querySelectorAll(".cite")].map((e) => e.textContent), ["1", "2", "1"]);
      equal(answer.node.querySelector(".cite")?.getAttribute("aria-label"), "Source 1: T5");
      equal([...answer.node.querySelectorAll(".sources li")].map((e) => e.textContent), ["1T5xz", "2T2y"]);
    },
  },
  {
    name: "an empty chat offers suggestions, and a click sends one",
    run() {
      const sent: string[] = [];
      const look = { title: "T", greeting: "Hi", inline: true, suggestions: ["<b>a</b>", "b"], language: "en" };
      const view = new View(look, texts, { send: (text) => sent.push(text) > 0, renew: () => {}, stop: () => {}, opened: () => {} });
      const offered = () => [...view.panel.querySelectorAll<HTMLElement>(".suggested button")];
      view.show([]);
      equal(offered().map((b) => b.textContent), ["<b>a</b>", "b"]);
      offered()[1]!.click();
      equal(sent, ["b"]);
      view.add({ from: "visitor", text: "b", files: ["é.png"] });
      equal([offered().length, view.panel.querySelector(".visitor ul")?.textContent], [0, "é.png"]);
      view.show([{ from: "visitor", text: "b" }]);
      equal([offered().length, view.panel.querySelector(".visitor ul")], [0, null]);
    },
  },
  {
    name: "drawing a growing answer leaves the page most of its time, and finally shows the newest text",
    async run() {
      const view = new View({ title: "T", greeting: "", inline: true, suggestions: [], language: "en" }, texts, { send: () => false, renew: () => {}, stop: () => {}, opened: () => {} });
      const began: number[] = [];
      let asked = 0;
      let shown = 0;
      await new Promise<void>((done) => {
        const grow = view.newRedraw(new Answer(texts).node, () => {
          shown = asked;
          for (began.push(performance.now()); performance.now() - began.at(-1)! < 20; );
          if (began.length === 5) done();
          else setTimeout(more);
        });
        const more = (): void => {
          for (let i = 0; i < 3; i++, asked++) grow();
        };
        more();
      });
      for (let i = 1; i < began.length; i++) ok(began[i]! - began[i - 1]! >= 79, `drawn again after ${began[i]! - began[i - 1]!} ms`);
      equal(shown, asked, "the newest text is shown");
    },
  },
  {
    name: "a transcript that cannot be shown is deleted, and the chat starts again",
    async run() {
      const store = new Store("sessionStorage", unguessable());
      store.set("transcript", { session: "w_1", entries: [{ from: "agent", text: "old" }], pending: null });
      const { show } = View.prototype;
      View.prototype.show = function (entries) {
        if (entries.length > 0) throw new Error("the entry cannot be shown");
        show.call(this, entries);
      };
      try {
        await quietly(() => {
          const { chat, log } = newChat([], store);
          equal(log(), "");
          ok(chat.send("new"), "no message can be sent");
          chat.leave();
        });
      } finally {
        View.prototype.show = show;
      }
      ok(!JSON.stringify(store.get("transcript")).includes("old"), "the old transcript is kept");
    },
  },
];
