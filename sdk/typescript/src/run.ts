import { RunFailedError } from "./errors.js";
import type { Run } from "./types.js";

/** A completed run, which has an answer. */
export type CompletedRun = Run & { status: "completed"; message: string };

/** Returns a completed run. It throws a `RunFailedError` if the run did not complete. */
export function orThrow(run: Run): CompletedRun {
  if (run.status !== "completed" || run.message === null) throw new RunFailedError(run);
  return run as CompletedRun;
}

/** Whether a run has finished or requires an action, so that waiting for it is over. */
export function waitIsOver(run: Run): boolean {
  return run.status !== "queued" && run.status !== "running";
}

/** The promise of a run. It resolves even if the run failed; check `status`. */
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

/** Calls the function and returns its promise of a run as a `RunPromise`. */
export function runPromise(work: () => Promise<Run>): RunPromise {
  return new RunPromise((resolve) => resolve(work()));
}
