import { ParleyError } from "./errors.js";

// JavaScript lets calls through that the types forbid. These say so before the service is asked something else than was meant.

/** Refuses an id that is missing, which would turn a question about one thing into one about all of them. */
export function idOf(id: string): string {
  if (typeof id !== "string" || id === "") throw new ParleyError(`an id is a text that is not empty, not ${id === "" ? '""' : String(id)}`);
  return id;
}

/** Refuses parameters that are no object; `shape` says what they look like. */
export function paramsOf<T extends object>(params: T, shape: string): T {
  if (typeof params !== "object" || params === null) throw new ParleyError(`it takes ${shape}`);
  return params;
}
