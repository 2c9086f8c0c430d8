// A chat with an agent: it sends messages, and shows and stores the answers.
import { StreamProblem, type ServerEvent } from "../kit/sse";
import type { Citation } from "../kit/markdown";
import { unreachable } from "../kit/texts";
import { activity, Answer } from "./answer";
import type { Attached } from "./files";
import { newTranscript, readCitations, load, save, unguessable, type Entry, type Pending, type Store, type Transcript } from "./record";
import { advice, type Service } from "./service";
import type { Texts } from "./texts";
import type { View } from "./view";

export type Report = (name: "message" | "answer" | "error", detail: Record<string, unknown>) => void;

/** The fields of an event that the widget reads. Visitors receive few other fields. */
interface EventData {
  runId: string;
  text?: string;
  citation?: Citation;
  toolCall?: { name?: string };
  run?: { message: string | null; citations?: Citation[] };
}

/** Returns a sentence that explains why a run has no answer, or undefined for a completed run. */
function failure(event: string, texts: Texts): string | undefined {
  switch (event) {
    case "run.failed": return texts.say("failed");
    case "run.cancelled": return texts.say("cancelled");
    case "run.timed_out": return texts.say("timedOut");
  }
  return undefined;
}

export class Chat {
  private transcript: Transcript;
  private stop = new AbortController();
  private busy = false;
  private cancelled = false;
  private kept = 0;

  constructor(
    private readonly service: Service,
    private readonly store: Store,
    private readonly view: View,
    private readonly texts: Texts,
    private readonly report: Report,
  ) {
    this.transcript = load(store);
    addEventListener("storage", this.elsewhere);
    this.resume();
  }

  /** Leaves the chat. The next page that opens it resumes an unfinished answer. */
  leave(): void {
    removeEventListener("storage", this.elsewhere);
    this.stop.abort();
  }

  get session(): string {
    return this.transcript.session;
  }

  /** Sends a message. Returns false while an answer is pending, and then sends nothing. */
  send(text: string, files: Attached[] = []): boolean {
    if (this.busy || (text.trim() === "" && files.length === 0)) return false;
    const pending = { key: unguessable(), text, files, answer: "", citations: [], lastEventId: "" };
    const said: Entry = { from: "visitor", text, files: files.length > 0 ? files.map((f) => f.name) : undefined };
    this.transcript.entries.push(said);
    this.transcript.pending = pending;
    save(this.store, this.transcript);
    this.view.add(said);
    this.report("message", { text });
    void this.follow(pending);
    return true;
  }

  /** Cancels the run of the pending answer, as soon as its id is known. */
  cancel(): void {
    this.cancelled = true;
    const run = this.transcript.pending?.run;
    if (run) this.service.cancel(run).catch(() => this.view.status(this.texts.say("unreachable")));
  }

  /** Starts a new session, and deletes the old transcript from the browser. */
  renew(): void {
    this.stop.abort();
    this.stop = new AbortController();
    this.transcript = newTranscript();
    this.set(false);
    save(this.store, this.transcript);
    this.view.show([]);
  }

  /** Loads the transcript again after another page of the visitor has changed it. */
  private readonly elsewhere = (event: StorageEvent): void => {
    if (event.key !== this.store.name("transcript") || this.busy) return;
    this.transcript = load(this.store);
    this.resume();
  };

  /** Shows the transcript, and resumes the pending answer. */
  private resume(): void {
    try {
      this.view.show(this.transcript.entries);
    } catch (cause) {
      console.error("agent-chat: the stored transcript cannot be shown and is deleted:", cause);
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

    const answer = new Answer(this.texts);
    this.cancelled = false;
    this.set(true);
    this.view.status(this.texts.say("thinking"));
    const grow = this.view.newRedraw(answer.node, () => answer.show(pending.answer, pending.citations, true));
    if (pending.answer !== "") grow();

    try {
      const connected = (up: boolean) => this.view.status(up ? this.texts.say("thinking") : this.texts.say("reconnecting"));
      for await (const event of this.service.chat(this.transcript.session, pending, signal, connected)) {
        if (this.take(event, pending)) {
          this.finish(event, pending, answer);
          return;
        }
        if (event.event === "message.delta" || event.event === "run.restarted") grow();
        this.keep(500);
      }

      if (signal.aborted) return;
      Object.assign(pending, { answer: "", citations: [], lastEventId: "" }); // the stream ended without its last event, so it is read again from the start
      this.fail(null, pending, answer);
    } catch (cause) {
      if (!signal.aborted) this.fail(cause, pending, answer);
    }
  }

  /** Applies an event of a run. Returns true if it is the last one. */
  private take(event: ServerEvent, pending: Pending): boolean {
    const data = JSON.parse(event.data) as EventData;
    pending.lastEventId = event.id;
    if (pending.run !== data.runId) {
      pending.run = data.runId;
      if (this.cancelled) this.cancel();
    }
    switch (event.event) {
      case "message.delta":
        pending.answer += data.text ?? "";
        this.view.status("");
        break;
      case "run.restarted": // the text so far is no longer valid
        pending.answer = "";
        pending.citations = [];
        this.view.status(this.texts.say("thinking"));
        break;
      case "citation.added":
        pending.citations = [...pending.citations, ...readCitations([data.citation])];
        break;
      case "tool.started":
        this.view.status(activity(data.toolCall?.name ?? "", this.texts));
        break;
      case "tool.completed":
        this.view.status(this.texts.say("thinking"));
        break;
      case "run.requires_action":
        this.view.status(this.texts.say("approval"));
        break;
      default:
        return data.run !== undefined;
    }
    return false;
  }

  private finish(event: ServerEvent, pending: Pending, answer: Answer): void {
    const { run } = JSON.parse(event.data) as EventData;

    const text = run?.message ?? pending.answer;
    const citations = run?.citations ? readCitations(run.citations) : pending.citations;
    const note = failure(event.event, this.texts);
    const stopped = event.event === "run.cancelled";

    this.transcript.entries.push({ from: "agent", text, citations, note, stopped });
    this.transcript.pending = null;
    save(this.store, this.transcript);

    this.view.status("");
    this.set(false);
    this.view.finish(answer.node, () => answer.show(text, citations, false, note, stopped));
    if (note === undefined) this.report("answer", { text, run });
    else this.report("error", { code: event.event, detail: note });
  }

  private fail(cause: unknown, pending: Pending, answer: Answer): void {
    const problem = cause instanceof StreamProblem ? cause : new StreamProblem(0, "unreachable", unreachable);

    const { text, again } = advice(problem, this.texts);
    answer.node.remove();
    this.view.status("");
    this.set(false);

    if (!again) this.transcript.pending = null;
    save(this.store, this.transcript);

    this.view.problem(text, again ? () => void this.follow(pending) : null, problem.retryAfter ?? 0);
    this.report("error", { code: problem.code, detail: text });
  }

  /** Stores the progress of the answer, at most once in the given number of milliseconds. */
  private keep(every: number): void {
    const now = Date.now();
    if (now - this.kept < every) return;
    this.kept = now;
    save(this.store, this.transcript);
  }
}
