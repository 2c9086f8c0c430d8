// The texts of the settings of an agent.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/agent.
  playground = "Playground",
  settings = "Settings",
  embed = "Embed",
  useIt = "Use it",
  agent = "Agent",
  agents = "Agents",
  agentNotFound = "Agent not found",
  thisAgentDoesntExist = "This agent doesn't exist here",
  goToAgents = "Go to agents",
  itWasDeleted = "It was deleted, or it belongs to another of your organizations.",
  copyAgentsId = "Copy the agent's id",
  readThisAgent = "Read this agent",
  peopleMayNotChat = "People may not chat with this agent",
  openSettings = "Open settings",
  onlySchedulersAndServices = "Only schedulers and services may call it. To try it here, allow People under “Who may call it” in its settings.",

  // Texts of the module pages/agent/basics.
  basics = "Basics",
  name = "Name",
  description = "Description",
  shownToPeople = "Shown to people in the list of agents. The model does not see it.",
  systemPrompt = "System prompt",
  suggestedQuestions = "Suggested questions",
  onePerLine = "One per line, at most six. A chat without messages offers them. The model does not see them.",
  listOfSources = "List of sources in the text",
  forClientsOfOpenais = "For clients of OpenAI's API that ignore annotations, for example Open WebUI and LibreChat. The text of answers on /v1 ends with the cited sources, and with links to the files that programs made.",
  model = "Model",
  languageModelThatAnswers = "The language model that answers. The list contains the models of the providers that the service's settings configure. The offline model needs no key.",
  fallbackModels = "Fallback models",
  usedInThisOrder = "Used in this order when the model is unavailable, out of quota, too slow or failing. At most three.",
  theList = "The list",
  addFallbackModel = "Add a fallback model",
  people = "People",
  chatInDashboardOver = "Chat in the dashboard, over the API and in the widget.",
  schedulersAndServices = "Schedulers and services",
  runsStartedThroughRun = "Runs started through run-automation with an API key, without a person.",
  noCallerIsAllowed = "No caller is allowed. Choose at least one.",
  whoMayCallIt = "Who may call it",

  // Texts of the module pages/agent/draft.
  temperature = "Temperature",
  topP = "Top P",
  maximumOutputTokens = "Maximum output tokens",
  reasoningEffort = "Reasoning effort",
  seed = "Seed",
  stopTexts = "Stop texts",
  parallelToolCalls = "Parallel tool calls",
  mustBeNumber = "must be a number",
  hasValueWithoutName = "has a value without a name; enter a name",
  isUsedTwice = "is used twice",
  widget = "Widget",
  allowedOrigins = "Allowed origins",
  identitySecret = "Identity secret",
  settingsThatRequests = "Settings that requests may change",
  attachments = "Attachments",

  // Texts of the module pages/agent/editor.
  notSavedCorrectMarked = "Not saved. Correct the marked fields.",

  // Texts of the module pages/agent/knowledge.
  chooseAtLeast = "Choose at least one document, or search all documents.",
  whichDocuments = "Which documents",
  allDocuments = "All documents",
  includingDocumentsAddedLater = "Including documents added later.",
  chosenDocuments = "Chosen documents",
  theChoice = "The choice",
  onlyDocumentsWithThisMetadata = "Only documents with this metadata",
  documentMustMatch = "A document must match every pair. Without pairs, every document matches.",
  addMetadata = "Add metadata",
  chooseDocuments = "Choose documents",
  deletedDocument = "Deleted document",
  done = "Done",
  filterByName = "Filter by name",
  documents = "Documents",
  soFarShow = " so far. Show more documents to search further",

  // Texts of the module pages/agent/modelpicker.
  openaiGpt5Mini = "openai/gpt-5-mini",
  providerModelOffline = "provider/model, offline, or offline/echo. Leave empty for the service's default.",
  defaultOfService = "Default of the service",
  anotherModel = "Another model …",
  nameOfModel = "Name of the model",

  // Texts of the module pages/agent/modelsettings.
  doesNotAcceptIt = "does not accept it",
  acceptsItOnlyWithReasoning = "accepts it only with the reasoning effort none",
  acceptsItOnlyWithoutTemperature = "accepts it only without a temperature",
  modelSettings = "Model settings",
  leaveFieldEmpty = "Leave a field empty for the model's default. What a model accepts is that of the provider's own service; other servers may accept more.",
  to2LowValues = "0 to 2. Low values give more predictable answers.",
  to1ModelChooses = "0 to 1. The model chooses among the likeliest tokens with this total probability.",
  ofOneAnswer = "Of one answer of the model, with its reasoning. A longer answer is cut off.",
  theModelsDefault = "The model's default",
  howMuchModelReasons = "How much the model reasons before it answers.",
  wholeNumberSameSeed = "A whole number. The same seed makes answers repeatable, as far as the provider supports this.",
  onePerLineAtMost = "One per line, at most four. The answer ends before the first of them. \\n stands for a line break.",
  allowed = "Allowed",
  oneToolAtTime = "One tool at a time",
  whetherModelMayRequest = "Whether the model may request several tools at once.",

  // Texts of the module pages/agent/output.
  answers = "Answers",
  textOrJson = "Text, or JSON that matches a schema. Each answer is checked before its run completes.",
  leaveEmptyForAnswers = "Leave empty for answers in text. A request may ask for another schema.",

  // Texts of the module pages/agent/preview.
  previewThePrompt = "Preview the prompt",
  input = "Input",
  inputOfTrigger = "The input of a trigger, as JSON.",
  session = "Session",
  preview = "Preview",
  promptAsModelGets = "Prompt as the model gets it",

  // Texts of the module pages/agent/savebar.
  unsavedChanges = "Unsaved changes",
  saved = "Saved",
  notSavedCorrectThese = "Not saved. Correct these fields:",
  unsavedChangesText = "Unsaved changes:",
  saveChanges = "Save changes",
  discard = "Discard",
  saving = "Saving …",
  nothingShownHere = "nothing shown here",
  yourChangesAndTheirs = "Your changes and theirs don't overlap.",
  discardMineLoadTheirs = "Discard mine, load theirs",
  applyMineOnTop = "Apply mine on top of theirs",

  // Texts of the module pages/agent/settings.
  tools = "Tools",
  connections = "Connections",
  deleteIt = "Delete",
  youCanViewThese = "You can view these settings. Only admins and owners of the organization can change them.",
  deleteThisAgent = "Delete this agent",
  itsQueuedRuns = "Its queued runs are cancelled. Finished runs stay readable, and repeated requests with an idempotency key still get their results.",
  deleteAgent = "Delete agent",

  // Texts of the module pages/agent/words.
  sideEffect = "Side effect",
  headers = "Headers",
  argumentsWord = "Arguments",
  signingSecret = "Signing secret",
  serverName = "Server name",
  serverUrl = "Server URL",
  sideEffectOfItsTools = "Side effect of its tools",
  askPersonFirst = "Ask a person first",
  keepFiles = "Keep files",
  metadata = "Metadata",
  endpoints = "Endpoints",
  servers = "Servers",
  endpoint = "Endpoint",
  server = "Server",
  voice = "Voice",
}

// Texts of the module pages/agent.
export const yourChangesWillBeLost = (names: string): string => `Your changes will be lost: ${names}.`;
export const unsavedChangesDontApply = (href: string) => <>Unsaved changes don't apply here. The agent answers as last saved. <a href={href}>Continue editing</a></>;

// Texts of the module pages/agent/basics.
export const agentsRoleHowItWorks = (length: string, most: string) => <>The agent's role, how it works, and what it must not do. Variables such as <code>{"{{now}}"}</code> and <code>{"{{input.customer}}"}</code> are filled in each run. <span class="number">{length} of {most} characters</span></>;
export const questionN = (n: number): string => `Question ${n}`;
export const removeFallbackModelN = (n: number): string => `Remove fallback model ${n}`;
export const fallbackModelNumber = (number: number): string => `Fallback model ${number}`;

// Texts of the module pages/agent/draft.

// Texts of the module pages/agent/knowledge.
export const andIdsMore = (ids: number): string => `and ${ids} more`;
export const removeName = (name: string): string => `Remove ${name}`;
export const idsChosen = (ids: number): string => `${ids} chosen`;
export const noDocumentsYetAdd = () => <>No documents yet. <a href="/dashboard/knowledge">Add documents under Knowledge</a>.</>;
export const noDocumentNameContains = (part: string): string => `No document name contains this text${part}.`;

// Texts of the module pages/agent/modelpicker.
export const defaultOfTheService = (defaults: string): string => `Default of the service (${defaults})`;

// Texts of the module pages/agent/modelsettings.
export const acceptsOnlyMin = (min: number): string => `accepts only ${min}`;
export const acceptsAtMostMax = (max: number): string => `accepts at most ${max}`;
export const acceptsAccepted = (accepted: string): string => `accepts ${accepted}`;

// Texts of the module pages/agent/preview.
export const systemPromptFault = (fault: ComponentChildren) => <>System prompt {fault}</>;

// Texts of the module pages/agent/savebar.
export const andErrorsMore = (errors: number): string => `and ${errors} more`;
export const someoneElseChanged = (time: ComponentChildren, theirs: string, yours: string) => <><strong class="bad-words">Someone else changed this agent {time}.</strong> They changed: {theirs}. You changed: {yours}.</>;
export const bothOfYouChanged = (names: string): string => `Both of you changed ${names}. Applying your changes replaces theirs.`;
export const nothingIsLost = (part: string): string => `${part} Nothing is lost until you choose.`;

// Texts of the module pages/agent/settings.
export const settingsOfName = (name: string): string => `Settings of ${name}`;
export const nameWasDeleted = (name: string): string => `${name} was deleted.`;
export const deleteName = (name: string): string => `Delete ${name}?`;

// Texts of the module pages/agent/words.
export const headerHeader = (header: string): string => `Header ${header}`;
export const fallbackModelAt = (at: number): string => `Fallback model ${at}`;
export const suggestedQuestionAt = (at: number): string => `Suggested question ${at}`;
export const allowedOriginDraft = (draft: string | number): string => `Allowed origin ${draft}`;
