import { RunFailedError } from "./errors.js";
import type { Run } from "./types.js";

/** A completed run, which has an answer. */
export type CompletedRun = Run & { status: "completed"; message: string };

/** Returns a completed run, and throws a `RunFailedError` for any other. */
export function orThrow(run: Run): CompletedRun {
  if (run.status !== "completed" || run.message === null) throw new RunFailedError(run);
  return run as CompletedRun;
}

/** Whether waiting for a run is over: it finished, or it requires a person's decision. */
export function settled(run: Run): boolean {
  return run.status !== "queued" && run.status !== "running";
}

/** The promise of a run. It resolves for every result of the run; check `status`. */
export class RunPromise extends Promise<Run> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Resolves to a completed run, and rejects with a `RunFailedError` if the run failed, was
   * cancelled, timed out or requires an action.
   */
  orThrow(): Promise<CompletedRun> {
    return this.then(orThrow);
  }
}

/** Returns the promise of a function's run. */
export function runPromise(work: () => Promise<Run>): RunPromise {
  return new RunPromise((resolve) => resolve(work()));
}
