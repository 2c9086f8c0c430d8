import { ConnectionError, ParleyError, StreamRestartedError } from "./errors.js";
import { backoff, sleep } from "./retry.js";
import { runPromise, type RunPromise } from "./run.js";
import { FrameParser } from "./sse.js";
import type { Opened, Call, RequestOptions, Transport } from "./transport.js";
import type { Run, RunEndedEvent, RunEvent } from "./types.js";

/** The service speaks every 10 seconds: who is silent for longer than this is gone. */
const silence = 30_000;

/** How a stream is opened, for the first time and behind the last event that is known. */
export type Opening = (runId: string | undefined) => Call;

/**
 * The events of a run, as they happen. Reading opens the stream, a stream that breaks is resumed where it stood, without a
 * lost or doubled event, and leaving the loop closes its connection; reading it again goes on behind the last event.
 */
export class RunStream implements AsyncIterable<RunEvent> {
  readonly #transport: Transport;
  readonly #opening: Opening;
  readonly #options: RequestOptions;
  #runId: string | undefined;
  #lastEventId: string | undefined;
  #run: Run | undefined;

  /** @internal */
  constructor(transport: Transport, opening: Opening, options: RequestOptions = {}, lastEventId?: string) {
    this.#transport = transport;
    this.#opening = opening;
    this.#options = options;
    this.#lastEventId = lastEventId;
  }

  /** The run; undefined before the first event. */
  get runId(): string | undefined {
    return this.#runId;
  }

  /** The id of the last event that was given: `client.runs.stream(runId, { lastEventId })` goes on behind it, in any process. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /** Gives the events up to the run's last one, `run.completed`, `run.failed`, `run.cancelled` or `run.timed_out`. */
  async *[Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, undefined> {
    const most = this.#transport.retries(this.#options);
    for (let failures = 0; this.#run === undefined; ) {
      const connection = await this.#open(most - failures);
      if (!connection) return; // behind the last event there is none
      let broken: unknown = new ConnectionError("the stream ended before its run");
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
      if (!(broken instanceof ConnectionError) || ++failures > most) throw broken;
      await sleep(backoff(failures - 1) / 2, this.#options.signal);
    }
  }

  /**
   * Gives the pieces of the answer. When a lost attempt is repeated, what was given before is not given again; if the new
   * attempt answers in other words, a `StreamRestartedError` is thrown.
   */
  async *text(): AsyncGenerator<string, void, undefined> {
    const told = new Told();
    for await (const event of this) {
      if (event.event === "run.restarted") told.restart();
      else if (event.event === "run.completed") told.end();
      else if (event.event === "message.delta") {
        const fresh = told.add(event.data.text);
        if (fresh !== "") yield fresh;
      }
    }
  }

  /** Reads what is left of the stream and gives the run, however it fared. */
  finalRun(): RunPromise {
    return runPromise(async () => {
      for await (const _ of this);
      return (this.#run ??= await this.#ofEnded());
    });
  }

  /** Opens the stream; undefined when the last event that is known is the run's last. */
  async #open(maxRetries: number): Promise<Opened | undefined> {
    const call = this.#opening(this.#runId);
    const headers = { ...call.headers, Accept: "text/event-stream", "Last-Event-ID": this.#lastEventId };
    const opened = await this.#transport.open({ ...call, headers }, { ...this.#options, maxRetries });
    if (opened.response.headers.get("content-type")?.startsWith("text/event-stream")) return opened;
    opened.bounds.close();
    if (opened.response.status === 204) return undefined;
    throw new ParleyError(`${call.path} was answered with something that is not a stream: is baseUrl right?`);
  }

  /** Reads the run of a stream that was taken up behind its end. */
  #ofEnded(): Promise<Run> {
    const { path, query } = this.#opening(this.#runId);
    return this.#transport.json<Run>({ method: "GET", path, query: { id: query?.["id"] } }, this.#options);
  }

  async *#read({ response, bounds }: Opened): AsyncGenerator<RunEvent, void, undefined> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new FrameParser();
    for (;;) {
      bounds.wind(silence);
      const { value, done } = await reader.read();
      bounds.unwind(); // the time that the caller takes for an event is its own
      if (done) return;
      for (const { id, event, data } of parser.push(value)) {
        const told = { id, event, data: JSON.parse(data) } as RunEvent;
        if (this.#take(told)) yield told;
      }
    }
  }

  // Notes an event; false when it, or a later one, was given already.
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

// Ids are <attempt>.<number>, and rise.
function follows(id: string, before: string): boolean {
  const [attempt = 0, number = 0] = id.split(".").map(Number);
  const [lastAttempt = 0, lastNumber = 0] = before.split(".").map(Number);
  return attempt > lastAttempt || (attempt === lastAttempt && number > lastNumber);
}

/** What a reader of text was told, which cannot be taken back. */
class Told {
  #text = "";
  #at = 0; // how far the attempt that goes on has come in it

  /** Gives what the next piece says beyond what was told. */
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
  return new StreamRestartedError("the run began anew and answers in other words: finalRun() has its answer");
}
