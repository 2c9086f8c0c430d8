// The texts of the list of runs.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/runs.
  runs = "Runs",
  paused = "Paused",
  live = "Live",
  reconnecting = "Reconnecting",
  resume = "Resume",
  pause = "Pause",
  listTheseRuns = "List these runs",
  exportTheseRuns = "Export these runs",
  everyMessageToAgent = "Every message to an agent and every trigger of an automation starts a run.",
  eachOfYourMessages = "Each of your messages to an agent starts a run.",
  clearFilters = "Clear filters",
  loading = "Loading …",
  searchOlderRuns = "Search older runs",
  showOlderRuns = "Show older runs",
  runIsWaiting = "1 run is waiting for you",
  hundredOrMore = "100 or more",
  openTheInbox = "Open the inbox",
  hundredOrMoreNewRuns = "100 or more new runs",
  oneNewRun = "1 new run",
  hello = "Hello",
  nothingFoundSoFar = "Nothing found so far",
  searchGoesOnInOlder = "The search goes on in older runs.",
  noRunsMatchThese = "No runs match these filters",
  newRunsThatMatch = "New runs that match appear here automatically.",
  noRunsYet = "No runs yet",
  goToAgents = "Go to agents",
  chatWithTemplate = "Chat with a template",
  runIsOneMessage = "A run is one message to an agent or one trigger of an automation, with its result: the answer, the tools used, the duration and the cost. Chat with an agent, and its run appears here immediately.",
  searchFindsFinishedRuns = "A search finds finished runs only",
  removeWordsOrChoose = "Remove the words or choose another status.",

  // Texts of the module pages/runs/filters.
  anyStatus = "Any status",
  needsYou = "Needs you",
  queued = "Queued",
  running = "Running",
  completed = "Completed",
  failed = "Failed",
  timedOut = "Timed out",
  cancelled = "Cancelled",
  anyTrigger = "Any trigger",
  anyAgent = "Any agent",
  filterRuns = "Filter runs",
  search = "Search",
  questionOrAnswer = "Question or answer",
  status = "Status",
  agent = "Agent",
  moreFilters = "More filters",
  from = "From",
  to = "To",
  trigger = "Trigger",
  automation = "Automation",
  session = "Session",
  exportAsCsv = "Export as CSV",
  csv = "CSV",
  exportAsJsonLines = "Export as JSON Lines",
  jsonLines = "JSON Lines",
  any = "Any",
  waitsForItsClient = "Waiting for the client",
  filters = "Filters",
  showRuns = "Show runs",
  couldntLoadAgents = "Couldn’t load the agents.",

  // Texts of the module pages/runs/rate.
  utcSomeFiltersDontApply = "Times are in UTC. The filters for words, status, trigger and session don’t apply to the plot.",
  utc = "UTC",
  noRunsInThisTime = "No runs in this period.",
  plotOfRuns = "Plot of runs",

  // Texts of the module pages/runs/rows.
  waitingForResults = "Waiting for results of the client’s tools",
  waitingForRetry = "Waiting for a retry",
  waitingForWorker = "Waiting for a worker",
  working = "Working",
  noAnswer = "No answer",
  runIsCancelledWithin = "The run is cancelled within two seconds. Tool calls that were already made are not undone.",
  run = "Run",
  created = "Created",
  queue = "Queue",
  runTime = "Run time",
  tokens = "Tokens",
  cost = "Cost",
  runsNewestFirst = "Runs, newest first",
  cancel = "Cancel",
}

// Texts of the module pages/runs.
export const runsAreWaiting = (part: string | number): string => `${part} runs are waiting for you`;
export const countNewRuns = (count: number): string => `${count} new runs`;

// Texts of the module pages/runs/rate.
export const runsPerInterval = (interval: string): string => `Runs per ${interval}`;

// Texts of the module pages/runs/rows.
export const allowToolNamed = (toolNamed: string): string => `Allow ${toolNamed}?`;
export const didCallToGo = (toolNamed: string): string => `Did the call to ${toolNamed} go through? Its response was lost.`;
export const callingToolNamed = (toolNamed: string): string => `Calling ${toolNamed}`;
export const tokensInAndOut = (inputTokens: string, outputTokens: string): string => `${inputTokens} in, ${outputTokens} out`;
export const cancelThisRunOf = (name: string): string => `Cancel this run of ${name}`;
export const cancelThisRunOfQuestion = (name: string): string => `Cancel this run of “${name}”?`;

// Texts of the module pages/runs/filters.
export const filtersChosen = (chosen: number): string => `Filters (${chosen})`;
export const exportExports = (exports: ComponentChildren) => <>Export {exports}</>;
