// A chat with an agent: what is said goes to the service, what comes back is shown and kept.
import { StreamProblem, type ServerEvent } from "../kit/sse";
import type { Citation } from "../kit/markdown";
import { activity, Answer } from "./answer";
import { begun, citationsOf, load, save, unguessable, type Pending, type Store, type Transcript } from "./record";
import { advice, type Service } from "./service";
import type { View } from "./view";

export type Tell = (name: "message" | "answer" | "error", detail: Record<string, unknown>) => void;

/** What is read of an event: of tools their names, and of a run what it said. Visitors are told little else. */
interface Told {
  text?: string;
  citation?: Citation;
  toolCall?: { name?: string };
  run?: { message: string | null; citations?: Citation[] };
}

const failures: Record<string, string> = {
  "run.failed": "There was no answer. Send your message again.",
  "run.cancelled": "The answer was cancelled.",
  "run.timed_out": "The answer took too long. Send your message again.",
};

export class Chat {
  private transcript: Transcript;
  private stop = new AbortController();
  private busy = false;
  private kept = 0;

  constructor(
    private readonly service: Service,
    private readonly store: Store,
    private readonly view: View,
    private readonly tell: Tell,
  ) {
    this.transcript = load(store);
    addEventListener("storage", this.elsewhere);
    this.takeUp();
  }

  /** Leaves the chat: what is awaited is taken up by whoever opens it next. */
  leave(): void {
    removeEventListener("storage", this.elsewhere);
    this.stop.abort();
  }

  /** Says something; false while an answer is awaited. */
  send(text: string): boolean {
    if (this.busy || text.trim() === "") return false;
    const pending = { key: unguessable(), text, answer: "", citations: [], lastEventId: "" };
    this.transcript.entries.push({ from: "visitor", text });
    this.transcript.pending = pending;
    save(this.store, this.transcript);
    this.view.add({ from: "visitor", text });
    this.tell("message", { text });
    void this.follow(pending);
    return true;
  }

  /** Begins a new session; what was said before is forgotten here. */
  renew(): void {
    this.stop.abort();
    this.stop = new AbortController();
    this.transcript = begun();
    this.set(false);
    save(this.store, this.transcript);
    this.view.show([]);
  }

  /** Another page of the visitor's went on with it. */
  private readonly elsewhere = (event: StorageEvent): void => {
    if (event.key !== this.store.name("transcript") || this.busy) return;
    this.transcript = load(this.store);
    this.takeUp();
  };

  /** Shows what was said, and goes on with the answer that is awaited. */
  private takeUp(): void {
    try {
      this.view.show(this.transcript.entries);
    } catch (cause) {
      console.error("agent-chat: what was said cannot be shown, and is dropped:", cause);
      this.renew();
    }
    if (this.transcript.pending) void this.follow(this.transcript.pending);
  }

  private set(busy: boolean): void {
    this.busy = busy;
    this.view.wait(busy);
  }

  private async follow(pending: Pending): Promise<void> {
    const { signal } = this.stop;
    const answer = new Answer();
    this.set(true);
    this.view.status("Thinking");
    const grow = this.view.growing(answer.node, () => answer.show(pending.answer, pending.citations, true));
    if (pending.answer !== "") grow();
    try {
      const connected = (up: boolean) => this.view.status(up ? "Thinking" : "Connecting again");
      for await (const event of this.service.chat(this.transcript.session, pending, signal, connected)) {
        if (this.take(event, pending)) {
          this.finish(event, pending, answer);
          return;
        }
        if (event.event === "message.delta" || event.event === "run.restarted") grow();
        this.keep(500);
      }
      if (signal.aborted) return;
      Object.assign(pending, { answer: "", citations: [], lastEventId: "" }); // it ended, and we missed how: all of it is asked for again
      this.fail(null, pending, answer);
    } catch (cause) {
      if (!signal.aborted) this.fail(cause, pending, answer);
    }
  }

  /** Takes an event in; true for the last one. */
  private take(event: ServerEvent, pending: Pending): boolean {
    const told = JSON.parse(event.data) as Told;
    pending.lastEventId = event.id;
    switch (event.event) {
      case "message.delta":
        pending.answer += told.text ?? "";
        this.view.status("");
        break;
      case "run.restarted": // what came so far is void
        pending.answer = "";
        pending.citations = [];
        this.view.status("Thinking");
        break;
      case "citation.added":
        pending.citations = [...pending.citations, ...citationsOf([told.citation])];
        break;
      case "tool.started":
        this.view.status(activity(told.toolCall?.name ?? "a tool"));
        break;
      case "tool.completed":
        this.view.status("Thinking");
        break;
      case "run.requires_action":
        this.view.status("Waiting for approval");
        break;
      default:
        return told.run !== undefined;
    }
    return false;
  }

  private finish(event: ServerEvent, pending: Pending, answer: Answer): void {
    const { run } = JSON.parse(event.data) as Told;
    const text = run?.message ?? pending.answer;
    const citations = run?.citations ? citationsOf(run.citations) : pending.citations;
    const note = failures[event.event];
    this.transcript.entries.push({ from: "agent", text, citations, note });
    this.transcript.pending = null;
    save(this.store, this.transcript);
    this.view.status("");
    this.set(false);
    this.view.settle(answer.node, () => answer.show(text, citations, false, note));
    if (note === undefined) this.tell("answer", { text, run });
    else this.tell("error", { code: event.event, detail: note });
  }

  private fail(cause: unknown, pending: Pending, answer: Answer): void {
    const problem = cause instanceof StreamProblem ? cause : new StreamProblem(0, "unreachable", "The service cannot be reached.");
    const { text, again } = advice(problem);
    answer.node.remove();
    this.view.status("");
    this.set(false);
    if (!again) this.transcript.pending = null;
    save(this.store, this.transcript);
    this.view.problem(text, again ? () => void this.follow(pending) : null, problem.retryAfter ?? 0);
    this.tell("error", { code: problem.code, detail: text });
  }

  /** Keeps how far the answer has come, not more often than every so many milliseconds. */
  private keep(every: number): void {
    const now = Date.now();
    if (now - this.kept < every) return;
    this.kept = now;
    save(this.store, this.transcript);
  }
}
