import { ParleyError } from "./errors.js";
import { checkId, checkParams } from "./given.js";
import { list, type PagePromise } from "./page.js";
import { jsonSchemaOf, parsed, type AnySchema, type DataOf, type Parsed } from "./output.js";
import { runPromise, type RunPromise } from "./run.js";
import { random, type Runs } from "./runs.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Automation, AutomationTrigger, GetAutomationsQuery } from "./types.js";

/** A trigger. It has either `message`, or `input`, which contains a message and further data. */
export type AutomationParams = Omit<AutomationTrigger, "input"> &
  ({ message: string; input?: undefined } | { input: AutomationTrigger["input"]; message?: undefined }) & {
    /** The automation's id, by which runs can be filtered. */
    automationId?: string | undefined;
    /** The type of the trigger, for example `schedule`. The default is `api`. */
    triggerType?: string | undefined;
    /** Whether to wait for the result. False returns the run as soon as it is accepted. */
    wait?: boolean | undefined;
  };

/** A page of the automations. */
export type AutomationQuery = Omit<GetAutomationsQuery, "id">;

const path = "/api/automations";

/** Runs agents from schedulers and services, and lists their automations. */
export class Automations {
  readonly #transport: Transport;
  readonly #runs: Runs;

  /** @internal */
  constructor(transport: Transport, runs: Runs) {
    this.#transport = transport;
    this.#runs = runs;
  }

  /**
   * Runs an agent and returns the run once it has finished or requires an action. With `wait:
   * false` it returns as soon as the run is accepted. Calls with the same `idempotencyKey`, from
   * any process, return the same run. The default is a new key per call.
   */
  run(params: AutomationParams, options: RequestOptions = {}): RunPromise {
    return runPromise(async () => {
      const { automationId, triggerType, wait, ...trigger } = checkParams(params, "{ target, message } or { target, input }");
      const body = triggerBody(trigger);
      const headers = { "x-trigger-type": triggerType, "x-automation-id": automationId };
      const call = { method: "POST", path: "/api/internal/run-automation", headers, body } as const;
      return this.#runs.submit(call, body.idempotencyKey, wait ?? true, false, options);
    });
  }

  /**
   * Runs an agent and returns the answer as data that matches a schema. It rejects with a
   * `RunFailedError` if the run does not complete.
   */
  async parse<S extends AnySchema>(
    params: Omit<AutomationParams, "output" | "wait"> & { schema: S }, options?: RequestOptions,
  ): Promise<Parsed<DataOf<S>>> {
    const { schema, ...rest } = checkParams(params, "{ target, message, schema } or { target, input, schema }");
    return parsed(await this.run({ ...rest, output: { schema: jsonSchemaOf(schema) } } as AutomationParams, options), schema);
  }

  /** Reads an automation with its newest run. */
  async get(id: string, options?: RequestOptions): Promise<Automation> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id) } }, options);
  }

  /** Lists automations by name. */
  list(query: AutomationQuery = {}, options?: RequestOptions): PagePromise<Automation> {
    return list(this.#transport, path, { ...query }, options);
  }
}

type Trigger = Omit<AutomationParams, "automationId" | "triggerType" | "wait">;

function triggerBody({ message, input, target, idempotencyKey, ...trigger }: Trigger): AutomationTrigger & { idempotencyKey: string } {
  const text = message ?? input?.message;
  if (input?.message !== undefined && input.message !== text) throw new ParleyError("message and input.message differ; pass only one of them");
  return { ...trigger, target: checkId(target), input: { ...input, message: text! }, idempotencyKey: idempotencyKey ?? random() };
}
