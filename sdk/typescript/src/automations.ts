import { ParleyError } from "./errors.js";
import { idOf, paramsOf } from "./given.js";
import { runPromise, type RunPromise } from "./run.js";
import { random, type Runs } from "./runs.js";
import type { RequestOptions } from "./transport.js";
import type { AutomationTrigger } from "./types.js";

/** A trigger: `message`, or `input` with a message and data beside it. */
export type AutomationParams = Omit<AutomationTrigger, "input"> &
  ({ message: string; input?: undefined } | { input: AutomationTrigger["input"]; message?: undefined }) & {
    /** The caller's name for the automation; runs can be listed by it. */
    automationId?: string | undefined;
    /** What kind of trigger calls, such as `schedule`; `api` unless given. */
    triggerType?: string | undefined;
    /** False: gives the run as soon as it was accepted. */
    wait?: boolean | undefined;
  };

/** Runs agents from schedulers and services. */
export class Automations {
  readonly #runs: Runs;

  /** @internal */
  constructor(runs: Runs) {
    this.#runs = runs;
  }

  /**
   * Runs an agent and gives the run once it has ended, requires an action, or, with `wait: false`, was accepted. With the same
   * `idempotencyKey` it never runs again, whoever asks; unless given, each call has its own.
   */
  run(params: AutomationParams, options: RequestOptions = {}): RunPromise {
    return runPromise(async () => {
      const { automationId, triggerType, wait, ...trigger } = paramsOf(params, "{ target, message } or { target, input }");
      const body = bodyOf(trigger);
      const headers = { "x-trigger-type": triggerType, "x-automation-id": automationId };
      const call = { method: "POST", path: "/api/internal/run-automation", headers, body } as const;
      return this.#runs.submit(call, body.idempotencyKey, wait ?? true, false, options);
    });
  }
}

type Trigger = Omit<AutomationParams, "automationId" | "triggerType" | "wait">;

function bodyOf({ message, input, target, idempotencyKey, ...trigger }: Trigger): AutomationTrigger & { idempotencyKey: string } {
  const text = message ?? input?.message;
  if (input?.message !== undefined && input.message !== text) throw new ParleyError("give the message once: as message or in input");
  return { ...trigger, target: idOf(target), input: { ...input, message: text! }, idempotencyKey: idempotencyKey ?? random() };
}
