// Loads the newest stored payload of a webhook, which is the best sample.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Delivery, DeliveryWithBody, List } from "../../types";
import type { Typed } from "./message";

async function readNewest(hookId: string, signal: AbortSignal): Promise<Typed | null> {
  const { data } = await get<List<Delivery>>("/api/hooks/deliveries", { hookId, limit: 20 }, signal);
  const kept = data.find((d) => d.kept && d.status !== "answered");
  if (!kept) return null;
  const { event, body } = await get<DeliveryWithBody>("/api/hooks/deliveries", { hookId, id: kept.id }, signal);
  return body ? { event, text: pretty(body) } : null;
}

/** Returns a text as indented JSON, or unchanged if it is not JSON. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function useNewestPayload(hookId: string) {
  const newest = useQuery(`newest payload ${hookId}`, (signal) => readNewest(hookId, signal));
  return { typed: newest.data ?? undefined, loaded: newest.data !== undefined || newest.error !== undefined };
}
