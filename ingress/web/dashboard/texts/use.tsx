// The texts of the tab that shows how to call an agent.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/agent/examples.
  whatCanYouDo = "What can you do?",

  // Texts of the module pages/agent/use.
  chat = "Chat",
  stream = "Stream",
  sdksAndClients = "SDKs and clients",
  speak = "Speak",
  scheduler = "Scheduler",
  sendsMessageAndWaits = "Sends a message and waits up to 55 seconds for the answer. If the run takes longer, the response is 202 with the run’s URL.",
  streamTheAnswer = "Stream the answer",
  serverSentEventsMessage = "Server-sent events: message.delta contains a piece of text, run.completed contains the whole run.",
  useExistingClient = "Use an existing client",
  sdksRetryAndResume = "The SDKs retry and resume automatically. OpenAI clients see the agent as a model. MCP clients see all agents of the organization as tools.",
  speakWithIt = "Speak with it",
  voiceIsOnForThisAgent = "Voice is on for this agent.",
  runItFromScheduler = "Run it from a scheduler",
  cronJobsPipelines = "Cron jobs, pipelines and services run the agent without a person. A repeated request with the same idempotencyKey starts no second run: it gets the first run’s result.",
  callItFromYourPrograms = "Call it from your programs",
  whatYourProgramDoes = "What your program does",
  idsThatExamplesUse = "Ids that the examples use",
  schedulersAndServicesMayCall = "Schedulers and services may call this agent",
  savedImmediately = "Saved immediately.",
  callsGet403Caller = "Until you switch this on, calls get status 403 with the code caller_not_allowed. The change is saved immediately.",
  changeWhoMayCall = "Change who may call it",
  agent = "Agent",
  copyAgentsId = "Copy the agent’s id",
  staysSameWhenAgent = "The id stays the same when the agent is renamed.",
  organization = "Organization",
  session = "Session",
  yourIdForChat = "An id of your choice for a chat, 1 to 128 characters. Messages of a session are answered in order, and each answer takes the earlier messages into account.",
  idempotency = "Idempotency",
  yourIdForOneMessage = "An id of your choice for one message or run, sent as a header. A repeated request with the same key starts no second run.",
}

// Texts of the module pages/agent/examples.
export const parleyChatUrlBaseUrl = (baseUrl: string, id: string, sample: string): string => `parley chat --url ${baseUrl} ${id} "${sample}"`;

// Texts of the module pages/agent/languages.
export const languageWhat = (what: string): string => `Language: ${what}`;

// Texts of the module pages/agent/use.
export const voiceIsOff = (href: string) => <>Voice is off for this agent. <a href={href}>Switch it on under Tools</a>.</>;
export const websocketWithEvents = (part: ComponentChildren) => <>A WebSocket with the events of OpenAI’s Realtime API, so that API’s clients can connect too. Some of them require https. {part} Web pages connect with a short-lived secret from <code>/v1/realtime/client_secrets</code>.</>;
export const runsWithXAutomation = () => <>Runs with an <code>x-automation-id</code> are listed under <a href="/dashboard/automations">Automations</a>. Requests from browsers are refused.</>;
export const examplesReadApiKey = () => <>The examples read an API key from <code>PARLEY_API_KEY</code>. <a href="/dashboard/org">Create a key under Organization</a>; it is shown once. Use the key on servers only. For web pages, use the widget.</>;
export const schedulersAndServices = () => <>Schedulers and services may not call this agent. They get status 403 with the code <code>caller_not_allowed</code>. Ask an admin to allow them.</>;
export const schedulersAndServicesMayNoLonger = (name: string): string => `Schedulers and services may no longer call “${name}”.`;
export const schedulersAndServicesMayNow = (name: string): string => `Schedulers and services may now call “${name}”.`;
export const impliedByOrganizationsKey = () => <>An organization’s API key implies it. With your personal API key, send it in the header <code>x-organization-id</code>.</>;
