// The texts of Home and the inbox.
import type { ComponentChildren } from "preact";
import { many } from "./plural";

export enum Words {
  // Texts of the module pages/home.
  whatNeedsYou = "What needs your attention, and what your agents have done.",
  home = "Home",
  readTheOverview = "Read the overview",

  // Texts of the module pages/home/needs.
  needsYou = "Needs you",
  nothingAtMoment = "Nothing at the moment.",
  runWaitsForYourDecision = "1 run is waiting for your decision",
  wasDisabled = "was disabled",
  theOrganization = "the organization",
  tokens = "tokens",
  runsLower = "runs",
  sandboxSeconds = "sandbox seconds",
  documentCouldNotBeRead = "1 document could not be read",

  // Texts of the module pages/home/newest.
  newestRuns = "Newest runs",
  allRuns = "All runs",
  noRunsYet = "No runs yet. Each message to an agent and each trigger starts a run.",

  // Texts of the module pages/home/steps.
  chatWithAgent = "Chat with an agent",
  askItSomething = "Ask the agent something and see which tools it uses.",
  uploadADocument = "Upload a document",
  agentsSearchItAndCite = "Agents search the document and cite its pages.",
  createApiKey = "Create an API key",
  yourProgramsCallAgents = "Your programs use the key to call agents.",
  runAgentFromScheduler = "Run an agent from a scheduler or webhook",
  copyCommandForCron = "Copy a command for cron, or connect GitHub.",
  putAgentOnYourWebsite = "Put an agent on your website",
  pasteOneLine = "Paste one line into your page.",
  firstSteps = "First steps",
  hideFirstSteps = "Hide the first steps",
  hide = "Hide",
  done = "(done)",

  // Texts of the module pages/home/week.
  last7Days = "Last 7 days",
  usage = "Usage",
  runs = "Runs",
  failed = "Failed",
  cost = "Cost",
  perDay = "per day",
  noRunsInLast = "No runs in the last seven days. Each bar shows the number of runs of one day, by result.",

  // Texts of the module pages/inbox.
  yourDecisionIsSaved = "Your decision is saved.",
  inbox = "Inbox",
  listWaitingRuns = "List the runs that wait",
  runsThatWait = "Runs that need a decision before they can continue.",
  nothingWaitsForYou = "Nothing is waiting for you",
  runWaitsHere = "A run waits here before a tool call that needs approval, and when it is unknown whether a call went through. In an agent’s settings, “Ask a person first” decides which calls need approval.",
}

// Texts of the module pages/home/needs.
export const runsWaitForYourDecision = (counted: string): string => `${counted} runs are waiting for your decision`;
export const webhookLastDeliveryWas = (name: string, status: string): string => `Webhook “${name}”: the last delivery was ${status}`;
export const failedTimesInRow = (failures: number): string => `failed ${many(failures, "time")} in a row`;
export const notificationEndpointDescriptionPart = (description: string, part: string): string => `Notification endpoint ${description} ${part}`;
export const budgetOfSubjectUsed = (subject: string, used: number): string => `Budget of ${subject}: ${used} % used`;
export const amountUnit = (amount: string, unit: string): string => `${amount} ${unit}`;
export const amountOfAmountPerPeriod = (used: string, limit: string, period: string, time: ComponentChildren) => <>{used} of {limit} per {period}. Resets {time}.</>;
export const maxOrMore = (max: number): string => `${max} or more`;
export const documentsCouldNotBeRead = (counted: string): string => `${counted} documents could not be read`;

// Texts of the module pages/home/steps.
export const doneOfStepsDone = (done: number, steps: number): string => `${done} of ${steps} done`;

// Texts of the module pages/home/week.
export const currencyPerDay = (currency: string): string => `${currency} per day`;
export const noCostInLast = (prices: ComponentChildren) => <>No cost in the last seven days. {prices}</>;

// Texts of the module pages/inbox.
export const decisionNOf = (n: number, of: string): string => `Decision ${n}: ${of}`;
export const startedTime = (time: ComponentChildren) => <>started {time}</>;
