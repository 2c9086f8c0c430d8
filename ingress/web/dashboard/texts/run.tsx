// The texts of the page of a run.
import { many } from "./plural";

export enum Words {
  // Texts of the module pages/run.
  runs = "Runs",
  run = "Run",
  copyLinkToThisRun = "Copy the link to this run",
  link = "Link",
  readThisRun = "Read this run",
  followThisRun = "Follow this run",
  cancelThisRun = "Cancel this run",
  cancelRun = "Cancel run",
  cancelThisRunQuestion = "Cancel this run?",
  resultsOfClient = "Waiting for results from the client",
  decisionIsNeeded = "A decision is needed",
  runContinuedWithoutThese = "The run continued without these connections:",
  message = "Message",
  dataOfMessage = "the data of the message",
  toolCalls = "Tool calls",
  runAsJson = "Run as JSON",
  theRunAsJson = "the run as JSON",
  queueTime = "Queue time",
  runTime = "Run time",
  attempts = "Attempts",
  agentVersion = "Agent version",
  tokensIn = "Tokens in",
  tokensOut = "Tokens out",
  cost = "Cost",
  error = "Error",
  answer = "Answer",
  partialOutputNotSaved = "Partial output, not saved.",
  answerIsIncompleteModel = "The answer is incomplete: the model reached its output limit.",
  answerIsIncompleteProvider = "The answer is incomplete: the provider withheld the rest.",
  waitingForRetry = "Waiting for a retry.",
  waitingForWorker = "Waiting for a worker.",
  agentIsWorking = "The agent is working.",
  runContinuesWhenItsClient = "The run continues when its client sends the results.",
  runContinuesAfterDecision = "The run continues after the decision.",
  runWasCancelled = "The run was cancelled before there was an answer.",
  noAnswer = "No answer.",
  runErased = "Run erased",
  thisRunWasErased = "This run was erased",
  goToRuns = "Go to runs",
  runNotFound = "Run not found",
  thisRunDoesntExist = "Couldn’t find this run",
  linkMayBeIncomplete = "The link may be incomplete, the run may have expired, or it belongs to another person or organization. Results are stored for 24 hours after a run finishes, unless its request asked for more.",

  // Texts of the module pages/run/facts.
  details = "Details",
  runId = "run id",
  template = "Template",
  agent = "Agent",
  session = "Session",
  copySessionId = "Copy session id",
  continues = "Continues",
  trigger = "Trigger",
  automation = "Automation",
  model = "Model",
  idempotencyKey = "Idempotency key",
  idempotencyKeyLower = "idempotency key",
  accepted = "Accepted",
  started = "Started",
  finished = "Finished",
  storedUntil = "Stored until",
  templateId = "template id",
  agentId = "agent id",

  // Texts of the module pages/run/spans.
  approved = "approved",
  denied = "denied",
  decided = "decided",
  markedAsDone = "marked as done",
  sentAgain = "sent again",
  runEnded = "run ended",
  waitingForApproval = "waiting for approval",
  outcomeOfCallUnknown = "unknown whether the call went through",
  queueAgain = "Queue again",
  queue = "Queue",
  workLostWithItsWorker = "Work lost because its worker failed",
  waitingForPerson = "Waiting for a person",
  waitingForClient = "Waiting for the client",
  waitingForResults = "waiting for results of its tools",
  resultsArrived = "results arrived",

  // Texts of the module pages/run/timeline.
  timeline = "Timeline",
  trueToScale = "True to scale",
  showTimelineAs = "Show the timeline as",
  chart = "Chart",
  table = "Table",
  wasAnswered = "was answered",
  failed = "failed",
  wasCancelled = "was cancelled",
  ended = "ended",
  timedOut = "timed out",
  waitingForAWorker = "waiting for a worker",
  inTheModel = "in the model",
  inTools = "in tools",
  waitingForAPerson = "waiting for a person",
  waitingForTheClient = "waiting for the client",
  lostWithWorker = "lost because a worker failed",
  status = "Status",
  duration = "Duration",
  from = "From",
  to = "To",
  now = "now",
  decision = "Decision",
  reason = "Reason",
  provider = "Provider",
  pointAtPart = "Choose a part to see its exact times, tokens, input and output. The arrow keys move between the parts.",
  partsOfRun = "Parts of the run in order",
  part = "Part",
  attempt = "Attempt",
  took = "Took",
  notes = "Notes",

  // Texts of the module pages/run/inspector.
  noText = "No text.",
  notCompleteYet = "Not complete yet.",
  notStoredBecauseTurn = "Not stored, because the turn did not complete.",
  output = "Output",
  textOfModel = "Text from the model",
  onlyBeginningIsShown = "Only the beginning is shown.",
  input = "Input",

  // Texts of the module pages/run/messages.
  instructionsOfRequest = "Instructions in the request",
  earlierMessage = "Earlier message",
  earlierAnswer = "Earlier answer",
  dataOfTheMessage = "Data of the message",
}

// Texts of the module pages/run.
export const runOfName = (name: string): string => `Run of ${name}`;
export const mcpServerNameMessage = (name: string, message: string) => <>MCP server <code>{name}</code>: {message}</>;
export const providerRespondedStatusMessage = (status: number, message: string): string => `The provider responded ${status}${message}`;
export const citationsRemovedNotFound = (citationsRemoved: number): string => `${many(citationsRemoved, "citation")} removed: not found in the source.`;
export const earlierTurnsInSession = (omittedTurns: number): string => `${many(omittedTurns, "earlier turn")} in the session omitted: the model’s context is too small.`;
export const yourOrganizationErasedContent = (id: string) => <>Your organization erased the content of <code>{id}</code>. Only the fact that the run took place is stored. Requests with its idempotency key get status 410.</>;

// Texts of the module pages/run/facts.
export const copyOf = (of: string): string => `Copy ${of}`;

// Texts of the module pages/run/spans.
export const pauseBeforeAttempt = (attempt: number): string => `Pause before attempt ${attempt}`;
export const turnNumber = (turn: string): string => `Turn ${turn}`;
export const attemptNumber = (attempt: number): string => `Attempt ${attempt}`;
export const decisionOnToolNamed = (toolNamed: string): string => `Decision on ${toolNamed}`;
export const tokensInAndOut = (inputTokens: string, outputTokens: string): string => `${inputTokens} tokens in, ${outputTokens} out`;
export const costOf = (costMicros: string): string => `cost ${costMicros}`;
export const fromAfter = (after: string): string => `from ${after}`;

// Texts of the module pages/run/timeline.
export const endSoFar = (end: string): string => `${end} so far`;
export const closeName = (name: string): string => `Close ${name}`;
export const stripedPartIsLonger = (cut: number, cut2: string): string => cut === 1 ? `The striped part is a wait of ${cut2}. It is longer than it looks.` : `The striped parts are waits of ${cut2}. They are longer than they look.`;
export const fromRequestUntilRun = (end: string, outcomes: string): string => `${end} from the request until the run ${outcomes}`;

// Texts of the module pages/run/inspector.
export const callsToolNamedGist = (toolNamed: string, gist: string) => <>Calls <strong>{toolNamed}</strong> <span class="quiet">{gist}</span></>;
export const versionAgentVersion = (agentVersion: number): string => ` (version ${agentVersion})`;
export const agentsInstructionsAndEarlier = (part: string, href: string) => <>The model received the agent’s instructions{part}, any earlier messages of <a href={href}>the session</a>, and the following messages:</>;

// Texts of the module pages/run/messages.
export const callsNames = (names: string): string => `Calls ${names}`;
export const answerOfName = (name: string): string => `Answer of ${name}`;
export const resultOfToolNamed = (toolNamed: string): string => `Result of ${toolNamed}`;
