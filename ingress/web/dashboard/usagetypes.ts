// The usage of an organization, as the API returns it.

export interface UsagePoint {
  startsAt: string;
  runs: number;
  completed: number;
  failed: number;
  cancelled: number;
  timedOut: number;
  inputTokens: number;
  outputTokens: number;
  costMicros: number;
  sandboxSeconds: number;
  /** From acceptance to the end, in milliseconds; null if no run finished. */
  p50Ms: number | null;
  p95Ms: number | null;
}

/** The usage of an agent, a key or an automation. */
export interface UsageGroup extends Omit<UsagePoint, "startsAt" | "p50Ms" | "p95Ms"> {
  /** Null for the runs without a subject, and for the sum of the unlisted groups. */
  id: string | null;
  /** The sum of all groups that are not listed. */
  others: boolean;
}

export interface Usage {
  interval: "hour" | "day";
  from: string;
  to: string;
  data: UsagePoint[];
  totals: Omit<UsagePoint, "startsAt">;
  /** Present if usage is grouped by agent, key or automation; the costliest group first. */
  groups?: UsageGroup[];
}
