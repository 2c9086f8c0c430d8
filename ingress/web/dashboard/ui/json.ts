// Functions for JSON that a person types into a field.
import * as texts from "../texts/schema";

/** Returns why a text is not JSON, or an empty string. */
export function jsonFault(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return texts.mustBeValidJson(error instanceof Error ? error.message : String(error));
  }
}

/** Returns the text to type for a JSON Schema. If there is none, the text is empty. */
export const schemaText = (schema: Record<string, unknown> | null): string => (schema === null ? "" : JSON.stringify(schema, null, 2));
