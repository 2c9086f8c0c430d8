import { ApiError, get, inDemo, problemOf } from "../../api";
import type { List, Template } from "../../types";

let known: Promise<Template[]> | null = null;

/** All templates. They are read once for as long as the window is open, and without the demo's header: its requests are counted. */
export async function allTemplates(): Promise<Template[]> {
  known ??= read();
  try {
    return await known;
  } catch (cause) {
    known = null;
    throw cause;
  }
}

async function read(): Promise<Template[]> {
  const path = "/api/agents/templates?limit=100";
  if (!inDemo()) return (await get<List<Template>>(path)).data;
  const response = await fetch(path, { credentials: "omit" }).catch(() => {
    throw new ApiError(0, "unreachable", "The service cannot be reached. Check the connection and try again.");
  });
  if (!response.ok) throw await problemOf(response);
  const list = (await response.json()) as List<Template>;
  return list.data;
}
