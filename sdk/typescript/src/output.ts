import { ParleyError, RunFailedError } from "./errors.js";
import type { CompletedRun } from "./run.js";
import type { OutputSchema, Run } from "./types.js";

/**
 * A schema of answers: a JSON Schema, or an object of a library such as Zod (from version 4.2, or with
 * `toJSONSchema`), Valibot or ArkType. `T` is the type of the data.
 */
export type AnySchema<T = unknown> = StandardSchema<T> | SchemaObject<T> | OutputSchema;

/**
 * An object with a method that returns the JSON Schema of its data, as defined by the Standard JSON
 * Schema specification.
 */
export interface StandardSchema<T> {
  readonly "~standard": { readonly jsonSchema?: { output(options: { target: string }): object }; readonly types?: { readonly output: T } | undefined };
}

/** An object that can return its JSON Schema. */
export interface SchemaObject<T> {
  toJSONSchema(): object;
  parse?(data: unknown): T;
}

/** The type of the data that a schema describes. */
export type DataOf<S> = S extends { readonly "~standard": { readonly types?: { readonly output: infer T } | undefined } } ? T : S extends SchemaObject<infer T> ? T : any;

/** The answer of a completed run as data, and the run. */
export interface Parsed<T> {
  data: T;
  run: CompletedRun;
}

/** Returns the JSON Schema of a schema. */
export function jsonSchemaOf(schema: AnySchema): OutputSchema {
  if ((typeof schema !== "object" && typeof schema !== "function") || schema === null) throw new ParleyError("schema must be a JSON Schema or an object of a schema library");
  const standard = (schema as Partial<StandardSchema<unknown>>)["~standard"];
  if (standard?.jsonSchema) return standard.jsonSchema.output({ target: "draft-2020-12" }) as OutputSchema;
  if (typeof (schema as Partial<SchemaObject<unknown>>).toJSONSchema === "function") return (schema as SchemaObject<unknown>).toJSONSchema() as OutputSchema;
  if (standard || "_def" in schema) throw new ParleyError("this object cannot write its JSON Schema: pass the result of z.toJSONSchema(schema) instead");
  return schema as OutputSchema;
}

/**
 * Returns the data of a completed run. It throws a `RunFailedError` if the run did not complete. If
 * the schema has a method `parse`, the data is the result of `parse`.
 */
export function parsed<S extends AnySchema>(run: Run, schema: S): Parsed<DataOf<S>> {
  if (run.status !== "completed" || run.message === null || run.output?.data === undefined) throw new RunFailedError(run);
  const parse = (schema as Partial<SchemaObject<unknown>>).parse;
  const data = typeof parse === "function" ? parse.call(schema, run.output.data) : run.output.data;
  return { data: data as DataOf<S>, run: run as CompletedRun };
}
