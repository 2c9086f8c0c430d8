// Loads the API keys that a webhook may use.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Key, List } from "../../types";

/** Loads the newest hundred keys. The form adds a webhook's key if it is not among them. */
export function useKeys() {
  const keys = useQuery("keys of hooks", (signal) => get<List<Key>>("/api/keys", { limit: 100 }, signal));
  return {
    keys: keys.data?.data ?? [], loaded: keys.data !== undefined || keys.error !== undefined,
    error: keys.data ? undefined : keys.error, reload: keys.reload,
  };
}
