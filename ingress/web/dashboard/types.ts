// The API's objects, with the fields of openapi.yaml that the dashboard uses.
import type { Citation } from "../kit/markdown";
import type { Attachment } from "./filetypes";
export type { Attachment, Document } from "./filetypes";

export type Role = "owner" | "admin" | "member";

export interface Session {
  caller: { kind: string; userId?: string; organizationId: string; role: Role };
  user?: { id: string; name: string; email: string };
  /** Whether the API lists invitations to the person's email address. */
  emailProven?: boolean;
  /** Whether the person can sign in again without a new link. */
  canLogIn?: boolean;
  organization: { id: string; name: string };
  organizations: { id: string; name: string; role: Role }[];
}

/** The data that the page contains before its first request. */
export interface Boot {
  session: Session | null;
  baseUrl: string;
  /**
   * The command that prints a link to set a new password. The account must be appended to the
   * command.
   */
  reset: string;
  /** The currency of costs, as an ISO 4217 code. */
  currency: string;
}

export interface List<T> {
  data: T[];
  hasMore: boolean;
  nextCursor: string | null;
}

export type Approval = "never" | "unsafe" | "always";
export type SideEffect = "none" | "idempotent" | "unsafe";

export interface Endpoint {
  name: string;
  description: string;
  method: string;
  url: string;
  headers?: Record<string, string>;
  inputSchema?: unknown;
  sideEffect?: SideEffect;
  signingSecret?: string;
}

export interface MCPServer {
  name: string;
  url: string;
  headers?: Record<string, string>;
  sideEffect?: SideEffect;
}

export interface Tools {
  webSearch?: { enabled: boolean; approval?: Approval };
  codeExecution?: { enabled: boolean; approval?: Approval; keepFiles?: boolean };
  knowledge?: { enabled: boolean; approval?: Approval; documentIds?: string[] | null; metadata?: Record<string, string> | null };
  httpRequest?: { enabled: boolean; approval?: Approval; endpoints?: Endpoint[] };
  mcp?: { enabled: boolean; approval?: Approval; servers?: MCPServer[] };
  voice?: { enabled: boolean; voice?: string };
}

export interface Agent {
  id: string;
  name: string;
  description: string;
  systemPrompt: string;
  model: string;
  fallbackModels: string[];
  tools: Tools;
  allowedCallers: ("user" | "system")[];
  widget: { enabled: boolean; allowedOrigins: string[]; attachments: boolean; identitySecret?: string | null };
  outputSchema: Record<string, unknown> | null;
  appendSources: boolean;
  suggestions: string[];
  temperature: number | null;
  topP: number | null;
  maxOutputTokens: number | null;
  reasoningEffort: string | null;
  seed: number | null;
  stop: string[] | null;
  parallelToolCalls: boolean | null;
  overridable: string[];
  version: number;
  lastCheck: AgentCheck | null;
  createdAt: string;
  updatedAt: string;
}

/** The results of a check of an agent's connections. */
export interface AgentCheck {
  version: number;
  checkedAt: string;
  ok: boolean;
  checks: { kind: string; name: string; ok: boolean; detail: string; durationMs: number }[];
}

export interface Template {
  id: string;
  name: string;
  description: string;
  tools: Tools;
  suggestedMessages: string[];
}

/** A sample document, and the organization's document with the same content. */
export interface Sample {
  name: string;
  bytes: number;
  documentId: string | null;
  status: "queued" | "processing" | "ready" | "failed" | null;
}

export type RunStatus = "queued" | "running" | "requires_action" | "completed" | "failed" | "cancelled" | "timed_out";

export type { Citation };
export interface ToolCall {
  id: string;
  name: string;
  status: "running" | "completed" | "failed" | string;
  input: unknown;
  output: unknown;
  durationMs: number;
  client?: true;
}

/**
 * The action that a run waits for: a decision about one call, or, for the kind client_tools, the
 * results of calls that the client must send.
 */
export interface RequiredAction {
  kind: "approval" | "unknown_outcome" | "client_tools";
  toolCallId?: string;
  name?: string;
  input?: unknown;
  calls?: { toolCallId: string; name: string; input: unknown }[];
  /** Whether the list omits a long input. */
  inputCut?: boolean;
  expiresAt: string;
}

export interface Run {
  id: string;
  status: RunStatus;
  agentId: string | null;
  templateId: string | null;
  sessionId: string;
  /** The run whose answer this run continues. Runs that finished before this field existed lack it. */
  previousRunId?: string | null;
  trigger: { type: string; automationId: string | null };
  message: string | null;
  output: { message: string; data?: unknown } | null;
  citations: Citation[];
  toolCalls: ToolCall[];
  usage: { inputTokens: number; outputTokens: number; costMicros: number; model: string };
  error: { code: string; message: string; errors?: { path: string; message: string }[]; provider?: { status: number; message: string } } | null;
  attachments?: Attachment[];
  finishReason: "stop" | "length" | "content_filter" | "tool_calls" | "cancelled" | "error" | null;
  agentVersion: number | null;
  omittedTurns?: number;
  requiredAction?: RequiredAction;
  citationsRemoved?: number;
  warnings?: { kind: string; name: string; message: string }[];
  /** The model settings of the run, by name. */
  settings?: Record<string, unknown>;
  attempts: number;
  idempotencyKey: string | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  expiresAt: string | null;
}

/**
 * A run as lists contain it: its message is truncated, and its tool calls have no input and output.
 * Every Run is also a RunSummary.
 */
export interface RunSummary extends Omit<Run, "output" | "citations" | "toolCalls"> {
  /** The question. Absent from a Run, and null if it is very large. */
  input?: { message: string } | null;
  toolCalls: Pick<ToolCall, "name" | "status" | "durationMs">[];
}

export interface Span {
  kind: "queue" | "attempt" | "turn" | "tool" | "wait";
  name: string;
  attempt: number;
  status: "completed" | "failed" | "running" | "waiting" | "lost";
  startedAt: string;
  finishedAt: string | null;
  toolCallId?: string;
  model?: string;
  inputTokens?: number;
  outputTokens?: number;
  costMicros?: number;
  /** The beginning of the text that the model returned. */
  text?: string;
  textCut?: boolean;
  /** The calls that the model requested. */
  toolCallIds?: string[];
  message?: string;
  /** The provider's error that ended an attempt. Only admins receive it. */
  provider?: { status: number; message: string };
}

export interface Timeline {
  runId: string;
  status: RunStatus;
  input: { message: string; data?: unknown; instructions?: string; history?: { message: string; answer: string }[] };
  spans: Span[];
}

export interface SessionEntry {
  id: string;
  agentId: string | null;
  templateId: string | null;
  principal: string;
  createdAt: string;
  runs: number;
}

export interface Message {
  id: string;
  role: "user" | "assistant";
  content: string;
  /** The images and documents of a person's message. */
  attachments?: Attachment[];
  runId: string;
  /** The run that the message's run continues. */
  previousRunId?: string | null;
  status: RunStatus;
  createdAt: string;
  citations?: Citation[];
  /**
   * Whether the person interrupted a spoken answer. The content is then the part that was played.
   */
  interrupted?: boolean;
}

export interface SessionMessages extends SessionEntry {
  messages: Message[];
  hasMore: boolean;
  nextCursor: string | null;
}

/** A passage from a document, as a search returns it. */
export interface Found {
  documentId: string;
  name: string;
  chunk: number;
  page: number | null;
  headings: string[];
  text: string;
  startIndex: number;
  endIndex: number;
  /** The position of the passage on its page in points, or null if the format has none. */
  box: [number, number, number, number] | null;
  score: number;
  matchedBy: string[];
}

export interface Key {
  id: string;
  name: string;
  scope: "organization" | "user";
  prefix: string;
  lastFour: string;
  createdAt: string;
  lastUsedAt: string | null;
  expiresAt: string | null;
  /** The key itself. It is present only in the response that creates the key. */
  key?: string;
}

export interface Member {
  id: string;
  email: string;
  name: string | null;
  role: Role;
  status: "active" | "invited";
  createdAt: string;
  /** The invitation's URL. It is present only in the response that creates the invitation. */
  url?: string;
  expiresAt?: string;
}

/** An invitation to the person's own email address. */
export interface OwnInvitation {
  id: string;
  organization: { id: string; name: string };
  role: Role;
  expiresAt: string;
}

export interface LoginSession {
  id: string;
  createdAt: string;
  lastUsedAt?: string | null;
  expiresAt: string;
  current: boolean;
  userAgent: string;
  address: string;
}

export type { Usage, UsageGroup, UsagePoint } from "./usagetypes";

export interface Limits {
  rates: { name: string; requests: number; windowSeconds: number; per: string }[];
  documents: { count: number; most: number; bytes: number; bytesMost: number };
  streams: { perCredential: number; perOrganization: number };
  voice: { perOrganization: number };
  run: { deadlineSeconds: number };
}

export interface Source {
  id: string;
  type: string;
  title: string;
  url: string;
  text: string;
  [more: string]: unknown;
}

/** The id of an automation, and the state of its last run. */
export interface Automation {
  id: string;
  agentId: string | null;
  triggerType: string;
  lastRun: { id: string; status: RunStatus; createdAt: string; finishedAt: string | null; kept: boolean };
}

export type HookSource = "github" | "stripe" | "slack" | "standard" | "hmac" | "token";
export type FilterOp = "eq" | "ne" | "in" | "contains" | "exists";

export interface HookFilter {
  path: string;
  op: FilterOp;
  value?: unknown;
}

export interface HookCoalesce {
  key: string;
  windowSeconds: number;
  maxWaitSeconds: number;
}

/** The models that agents can use. */
export interface ModelList {
  /** The model of agents that name none. */
  default: string;
  models: string[];
}

/** A webhook: a URL for another service's events. Each delivery starts a run. */
export interface Hook {
  id: string;
  name: string;
  agentId: string;
  keyId: string;
  source: HookSource;
  url: string;
  /**
   * The secret. It is "***", except in the response that creates the webhook or rotates its secret.
   */
  secret: string;
  previousSecretUntil: string | null;
  signatureHeader: string;
  deliveryIdHeader: string;
  messageTemplate: string;
  /** The JSON Schema of the answers, or null if the agent's own applies. */
  outputSchema: Record<string, unknown> | null;
  filter: HookFilter[];
  coalesce: HookCoalesce | null;
  enabled: boolean;
  lastDeliveryAt: string | null;
  /** The last delivery without a valid signature. */
  lastRejectedAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export type DeliveryStatus = "accepted" | "coalesced" | "filtered" | "answered" | "refused" | "rejected";

export interface Delivery {
  id: string;
  hookId: string;
  status: DeliveryStatus;
  event: string;
  runId: string | null;
  bytes: number;
  /** Whether the payload is stored. A delivery without a stored payload cannot be redelivered. */
  kept: boolean;
  error: { code: string; message: string } | null;
  receivedAt: string;
  duplicates: number;
  /** The payload. It is present only if a single delivery is read and its payload is stored. */
  body?: string | null;
}

/** The response to a delivery. */
export interface Received {
  deliveryId: string;
  status: DeliveryStatus;
  runId: string | null;
  duplicate: boolean;
  error: { code: string; message: string } | null;
}

export type NotificationEvent = "run.completed" | "run.failed" | "run.requires_action" | "knowledge.ready" | "knowledge.failed";

/** A URL that receives notifications. */
export interface NotificationEndpoint {
  id: string;
  url: string;
  description: string;
  events: NotificationEvent[];
  agentId: string | null;
  enabled: boolean;
  disabledReason: string | null;
  disabledAt: string | null;
  secret: string;
  previousSecretUntil: string | null;
  failures: number;
  lastSuccessAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Notification {
  id: string;
  endpointId: string;
  event: string;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  responseStatus: number | null;
  error: string | null;
  nextAttemptAt: string | null;
  createdAt: string;
  deliveredAt: string | null;
  /** The payload. It is present only if a single message is read. */
  payload?: unknown;
}

export type StepName = "chat" | "document" | "key" | "schedule" | "embed";

/** A first step with the service, and whether it is done. */
export interface Step { name: StepName; done: boolean }

/** The first steps, and what needs attention. */
export interface Overview {
  steps: Step[];
  /** The number of runs that wait for a decision. The service counts at most 100. */
  approvals: number;
  webhooks: { id: string; name: string; status: "refused" | "rejected"; error: { message: string } | null; receivedAt: string }[];
  notifications: { id: string; url: string; description: string; disabledReason: string | null; failures: number }[];
  documents: { count: number; newest: { id: string; name: string; error: { message: string } | null }[] };
  budgets: { id: string; subject: string | null; metric: BudgetMetric; period: BudgetPeriod; limit: number; used: number; resetsAt: string }[];
}

export type BudgetScope = "organization" | "agent" | "key" | "automation";
export type BudgetMetric = "costMicros" | "tokens" | "runs" | "sandboxSeconds";
export type BudgetPeriod = "day" | "month";

/** A cap on usage per day or month. */
export interface Budget {
  id: string;
  scope: BudgetScope;
  subjectId: string | null;
  metric: BudgetMetric;
  period: BudgetPeriod;
  limit: number;
  used: number;
  /** The amount that is reserved for calls in progress and not included in used. */
  reserved: number;
  resetsAt: string;
  createdAt: string;
  updatedAt: string;
}
