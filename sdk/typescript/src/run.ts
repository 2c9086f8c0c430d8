import { RunFailedError } from "./errors.js";
import type { Run } from "./types.js";

/** A run that has completed: it has an answer. */
export type CompletedRun = Run & { status: "completed"; message: string };

/** Gives the run back if it has completed, and throws a `RunFailedError` otherwise. */
export function orThrow(run: Run): CompletedRun {
  if (run.status !== "completed" || run.message === null) throw new RunFailedError(run);
  return run as CompletedRun;
}

/** Says whether waiting for a run has come to an end: it ended, or a person must decide what it may do. */
export function settled(run: Run): boolean {
  return run.status !== "queued" && run.status !== "running";
}

/** The promise of a run, however it fares: `status` says so. */
export class RunPromise extends Promise<Run> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** Gives the run if it has completed; rejects with a `RunFailedError` if it failed, was cancelled, timed out or waits. */
  orThrow(): Promise<CompletedRun> {
    return this.then(orThrow);
  }
}

/** Makes the promise of the run that some work gives. */
export function runPromise(work: () => Promise<Run>): RunPromise {
  return new RunPromise((resolve) => resolve(work()));
}
