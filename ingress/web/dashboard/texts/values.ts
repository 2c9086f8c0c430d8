// The words for values of the API that several pages show: a table for each kind.

/** Returns the word for a value, or the value itself if the table does not contain it. */
export function wordFor(table: Record<string, string>, value: string): string {
  return Object.hasOwn(table, value) ? table[value] ?? value : value;
}

/** The statuses of runs, their parts and tool calls, and of documents, deliveries and messages. */
export const statuses: Record<string, string> = {
  queued: "queued", running: "running", requires_action: "needs you", waits_for_client: "waits for client",
  completed: "completed", failed: "failed", cancelled: "cancelled", timed_out: "timed out",
  pending: "pending", waiting: "waiting", lost: "lost", processing: "processing", ready: "ready",
  accepted: "accepted", coalesced: "coalesced", filtered: "filtered", answered: "answered", refused: "refused", rejected: "rejected",
  delivered: "delivered", enabled: "enabled", disabled: "disabled",
};

/** The usual types of triggers. Callers may send others. */
export const triggers: Record<string, string> = { chat: "chat", schedule: "schedule", webhook: "webhook", api: "API" };

/** The periods of plots and budgets. */
export const periods: Record<string, string> = { hour: "hour", day: "day", month: "month" };

/** How much effort a model spends on reasoning. */
export const efforts: Record<string, string> = { none: "none", minimal: "minimal", low: "low", medium: "medium", high: "high", xhigh: "extra high" };

/** The codes of failed runs. */
export const runErrors: Record<string, string> = {
  model_not_available: "model not available", model_unavailable: "model provider unavailable",
  model_rate_limited: "model provider's rate limit exceeded", model_timeout: "model timeout", model_truncated: "answer interrupted",
  model_rejected: "rejected by the model provider", model_quota_exceeded: "model provider's quota used up",
  context_too_long: "prompt too long for the model", turn_limit: "too many model calls", token_limit: "too many tokens", cost_limit: "cost limit exceeded",
  budget_exceeded: "budget used up", byte_limit: "run too large", tool_call_limit: "too many tool calls",
  output_invalid: "answer does not match the schema", attachment_unreadable: "attachment unreadable", action_limit: "too many waiting runs",
  action_expired: "waited too long",
  outcome_unknown_abandoned: "ended by a person", tool_unavailable: "tool unavailable", tool_name_taken: "tool name taken",
  journal_unreadable: "recorded steps inconsistent", caller_not_allowed: "caller not allowed", worker_lost: "workers died",
  deadline_exceeded: "deadline exceeded", unavailable: "server unavailable", internal: "internal error",
};
