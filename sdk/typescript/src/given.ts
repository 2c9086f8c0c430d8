import { ParleyError } from "./errors.js";

// These functions check arguments at run time, because JavaScript permits calls that the types
// forbid. A wrong call then fails before a request is sent.

/** Rejects a missing id. Without the id, the request would concern all objects instead of one. */
export function checkId(id: string): string {
  if (typeof id !== "string" || id === "") throw new ParleyError(`id must be a non-empty string, not ${id === "" ? '""' : String(id)}`);
  return id;
}

/** Rejects parameters that are not an object. `shape` describes the expected object. */
export function checkParams<T extends object>(params: T, shape: string): T {
  if (typeof params !== "object" || params === null) throw new ParleyError(`pass ${shape}`);
  return params;
}
