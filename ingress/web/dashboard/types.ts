// The types of the API's objects. They are generated from openapi.yaml for the TypeScript SDK. Some
// have other names here. A RequiredAction may be that of a whole run or, without a long input, that
// of a list. The types that are written by hand describe what the API does not define.
import type { CallerView, RunSummary as ListedRun } from "../../../sdk/typescript/src/types";

export type {
  Agent, AgentCheck, Approval, Attachment, Automation, Budget, BudgetMetric, BudgetPeriod, BudgetScope, CallerView as Session, Citation,
  Delivery, DeliveryStatus, DeliveryWithBody, Document, DocumentPage, DocumentPassages, DocumentPicture, Endpoint, FieldError, FoundList,
  Home as Overview, HomeStep as Step, Hook, HookFilter, HookSource, ImportedEndpoints, Invitation, Key, KeyWithSecret, Limits,
  LoginSession, McpServer, Member, Message, ModelList, NotificationEndpoint, NotificationEvent, NotificationMessage as Notification,
  OwnInvitation, PagePicture, PageWord, Passage, RequiredActionSummary as RequiredAction, ResetLink, Role, Run, RunEvent, RunFile,
  RunStatus, Sample, Session as SessionEntry, SessionWithMessages as SessionMessages, SideEffect, Source, Span, TakenDelivery as Received,
  Template, Timeline, ToolCall, Tools, UploadedFile, UsageGroup, UsageInterval as UsagePoint, UsageReport as Usage,
} from "../../../sdk/typescript/src/types";

/** The data that the page contains before its first request. */
export interface Boot {
  session: CallerView | null;
  baseUrl: string;
  /**
   * The command that prints a link to set a new password. The account must be appended to the
   * command.
   */
  reset: string;
  /** The currency of costs, as an ISO 4217 code. */
  currency: string;
}

/** A page of any list. The API has a type for each list. */
export interface List<T> {
  data: T[];
  hasMore: boolean;
  nextCursor: string | null;
}

/**
 * A run as lists contain it, or a whole run. A whole run has no input, and its citations are not a
 * number.
 */
export interface RunSummary extends Omit<ListedRun, "input" | "citations"> {
  input?: ListedRun["input"];
}
