// The keys and agents that a hook may name.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Key, List } from "../../types";

/** The newest hundred keys; a hook's own is among the choices even when it is none of them. */
export function useKeys() {
  const keys = useQuery("keys of hooks", (signal) => get<List<Key>>("/api/keys", { limit: 100 }, signal));
  return { keys: keys.data?.data ?? [], loaded: keys.data !== undefined || keys.error !== undefined };
}
