export { Parley, type ParleyOptions } from "./client.js";
export { Agents, Templates, type AgentQuery, type TemplateQuery } from "./agents.js";
export { Automations, type AutomationParams, type AutomationQuery } from "./automations.js";
export type { Chat, ChatParams } from "./chat.js";
export { Knowledge, type DocumentQuery, type NewFile, type SearchOptions } from "./knowledge.js";
export { Files, Sources, type FileUpload } from "./files.js";
export { Hooks, type DeliveryQuery, type HookQuery } from "./hooks.js";
export { Notifications, type EndpointQuery, type NotificationQuery } from "./notifications.js";
export { Budgets, Keys, UsageReports, type BudgetQuery, type KeyQuery, type UsageQuery } from "./organization.js";
export { Sessions, type SessionQuery, type SessionSelector } from "./sessions.js";
export { Runs, type RunDecision, type RunQuery, type ToolFunctions } from "./runs.js";
export { RunStream } from "./stream.js";
export { orThrow, RunPromise, type CompletedRun } from "./run.js";
export { jsonSchemaOf, parsed, type AnySchema, type DataOf, type Parsed, type SchemaObject, type StandardSchema } from "./output.js";
export { Page, PagePromise } from "./page.js";
export type { RequestOptions } from "./transport.js";
export {
  APIError, AuthenticationError, BadRequestError, ConflictError, ConnectionError, CrossOriginError, NotFoundError, ParleyError, PermissionDeniedError,
  RateLimitError, RunFailedError, ServerError, StreamRestartedError, TimeoutError, WaitEndedError,
} from "./errors.js";
export type * from "./types.js";
