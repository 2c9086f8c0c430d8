import { ConnectionError, ParleyError, StreamRestartedError } from "./errors.js";
import { backoff, sleep } from "./retry.js";
import { runPromise, type RunPromise } from "./run.js";
import { FrameParser } from "./sse.js";
import type { Opened, Call, RequestOptions, Transport } from "./transport.js";
import type { Run, RunEndedEvent, RunEvent } from "./types.js";

/**
 * Milliseconds without data after which a connection counts as lost. The service sends something
 * every 10 seconds.
 */
const silence = 30_000;

/**
 * A function that returns the request for opening a stream. Its argument is the run's id, or
 * undefined before the first event.
 */
export type OpenRequest = (runId: string | undefined) => Call;

/**
 * The events of a run as they happen. The stream is opened by the first read. If the connection is
 * lost, the stream resumes without a missing or repeated event. Leaving a `for await` loop closes
 * the connection; a later loop continues after the last event.
 */
export class RunStream implements AsyncIterable<RunEvent> {
  readonly #transport: Transport;
  readonly #request: OpenRequest;
  readonly #options: RequestOptions;
  #runId: string | undefined;
  #lastEventId: string | undefined;
  #run: Run | undefined;

  /** @internal */
  constructor(transport: Transport, request: OpenRequest, options: RequestOptions = {}, lastEventId?: string) {
    this.#transport = transport;
    this.#request = request;
    this.#options = options;
    this.#lastEventId = lastEventId;
  }

  /** The run's id; undefined before the first event. */
  get runId(): string | undefined {
    return this.#runId;
  }

  /**
   * The id of the last event that was returned. `client.runs.stream(runId, { lastEventId })`
   * continues after it, in any process.
   */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /**
   * Yields the events up to the run's last one: `run.completed`, `run.failed`, `run.cancelled` or
   * `run.timed_out`.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, undefined> {
    const maxFailures = this.#transport.retries(this.#options);
    for (let failures = 0; this.#run === undefined; ) {
      const connection = await this.#open(failures);
      if (!connection) return; // the run has no event after the last known one
      let broken: unknown = new ConnectionError("the stream ended before the run finished");

      try {
        for await (const event of this.#read(connection)) {
          failures = 0;
          yield event;
          if (this.#run) return;
        }
      } catch (thrown) {
        broken = connection.bounds.error(thrown);
      } finally {
        connection.bounds.close();
      }

      if (!(broken instanceof ConnectionError) || ++failures > maxFailures) throw broken;
      await sleep(backoff(failures - 1), this.#options.signal);
    }
  }

  /**
   * Yields the answer in pieces. If a lost attempt is repeated, text that was already returned is
   * not repeated. If the new attempt's answer differs, `text()` throws a `StreamRestartedError`.
   */
  async *text(): AsyncGenerator<string, void, undefined> {
    const received = new ReceivedText();
    for await (const event of this) {
      if (event.event === "run.restarted") received.restart();
      else if (event.event === "run.completed") received.end();
      else if (event.event === "message.delta") {
        const fresh = received.add(event.data.text);
        if (fresh !== "") yield fresh;
      }
    }
  }

  /** Reads the rest of the stream and returns the run, even if it failed. */
  finalRun(): RunPromise {
    return runPromise(async () => {
      for await (const _ of this);
      return (this.#run ??= await this.#ofEnded());
    });
  }

  /**
   * Opens the stream. It returns undefined if the last known event is the last event of the run.
   * The argument is the number of consecutive failures before this call.
   */
  async #open(failures: number): Promise<Opened | undefined> {
    const call = this.#request(this.#runId);
    const headers = { ...call.headers, Accept: "text/event-stream", "Last-Event-ID": this.#lastEventId };
    const opened = await this.#transport.open({ ...call, headers }, this.#options, failures);
    if (opened.response.headers.get("content-type")?.startsWith("text/event-stream")) return opened;
    opened.bounds.close();
    if (opened.response.status === 204) return undefined;
    throw new ParleyError(`${call.path}: the response is not an event stream; check baseUrl`);
  }

  /** Returns the run if the stream was resumed after the run's last event. */
  #ofEnded(): Promise<Run> {
    const { path, query } = this.#request(this.#runId);
    return this.#transport.json<Run>({ method: "GET", path, query: { id: query?.["id"] } }, this.#options);
  }

  async *#read({ response, bounds }: Opened): AsyncGenerator<RunEvent, void, undefined> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new FrameParser();
    for (;;) {
      bounds.restartTimeout(silence);
      const { value, done } = await reader.read();
      bounds.stopTimeout(); // stops the timeout while the caller handles an event
      if (done) return;
      for (const { id, event, data } of parser.push(value)) {
        if (data === "") continue; // each event of a run has data
        const parsed = { id, event, data: JSON.parse(data) } as RunEvent;
        if (this.#take(parsed)) yield parsed;
      }
    }
  }

  // Records an event. Returns false if the caller has already received the event.
  #take(event: RunEvent): boolean {
    if (this.#lastEventId !== undefined && !follows(event.id, this.#lastEventId)) return false;
    this.#lastEventId = event.id;
    this.#runId = event.data.runId;
    if (ended(event)) this.#run = event.data.run;
    return true;
  }
}

function ended(event: RunEvent): event is RunEndedEvent {
  return "run" in event.data;
}

// Event ids have the form <attempt>.<number> and increase.
function follows(id: string, before: string): boolean {
  const [attempt = 0, number = 0] = id.split(".").map(Number);
  const [lastAttempt = 0, lastNumber = 0] = before.split(".").map(Number);
  return attempt > lastAttempt || (attempt === lastAttempt && number > lastNumber);
}

/** Tracks the text that a reader has received, because such text cannot be retracted. */
class ReceivedText {
  #text = "";
  #at = 0; // number of characters of the received text that the current attempt has repeated

  /** Returns the part of the next piece of text that the reader has not received yet. */
  add(piece: string): string {
    const known = this.#text.slice(this.#at, this.#at + piece.length);
    if (!piece.startsWith(known)) throw differs();
    const fresh = piece.slice(known.length);
    this.#text += fresh;
    this.#at += piece.length;
    return fresh;
  }

  restart(): void {
    this.#at = 0;
  }

  end(): void {
    if (this.#at < this.#text.length) throw differs();
  }
}

function differs(): StreamRestartedError {
  return new StreamRestartedError("the run was restarted with a different answer; call finalRun() to get it");
}
