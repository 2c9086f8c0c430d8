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
  thisAgentDoesntExist = "Couldn’t find this agent",
  goToAgents = "Go to agents",
  itWasDeleted = "The agent was deleted, or it belongs to another of your organizations.",
  copyAgentsId = "Copy the agent’s id",
  readThisAgent = "Read this agent",
  agentIsntOpenToPeople = "This agent isn’t open to people",
  openSettings = "Open settings",
  onlySchedulersAndServices = "Only schedulers and services may call this agent. To try it here, allow People under “Who may call it” in its settings.",

  // Texts of the module pages/agent/basics.
  basics = "Basics",
  name = "Name",
  description = "Description",
  shownToPeople = "Shown to people in the list of agents. The model does not see it.",
  systemPrompt = "System prompt",
  suggestedQuestions = "Suggested questions",
  onePerLine = "One question per line, at most six. An empty chat offers these questions to start with. The model does not see them. Without questions of yours, the playground offers those shown here, and a widget offers none.",
  listOfSources = "Add a list of sources to the text",
  forClientsOfOpenais = "For OpenAI clients that ignore annotations, for example Open WebUI and LibreChat. On /v1, the text of each answer then ends with its cited sources and with links to the files that programs created.",
  model = "Model",
  languageModelThatAnswers = "The language model that writes the answers. The list contains the models of the providers that this service is configured to use. The offline model needs no API key.",
  fallbackModels = "Fallback models",
  usedInThisOrder = "If the model is unavailable, out of quota, too slow or failing, these models are called in this order. At most three.",
  theList = "The list",
  addFallbackModel = "Add a fallback model",
  people = "People",
  chatInDashboardOver = "People can chat in the dashboard, over the API and in the widget.",
  schedulersAndServices = "Schedulers and services",
  runsStartedThroughRun = "Programs can start runs with an API key, through POST /api/internal/run-automation.",
  noCallerIsAllowed = "No callers are allowed. Choose at least one kind.",
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
  documentMustMatch = "Only documents that have all of these names and values are searched. An empty list excludes no documents.",
  addMetadata = "Add metadata",
  chooseDocuments = "Choose documents",
  deletedDocument = "Deleted document",
  done = "Done",
  filterByName = "Filter by name",
  documents = "Documents",
  noDocumentNameContains = "No document name contains this text.",
  noDocumentNameSoFar = "None of the document names loaded so far contains this text. Show more documents to search in them.",

  // Texts of the module pages/agent/modelpicker.
  openaiGpt5Mini = "openai/gpt-5-mini",
  providerModelOffline = "Enter provider/model, offline, or offline/echo. Leave empty to use the service’s default.",
  defaultOfService = "Service default",
  anotherModel = "Another model …",
  nameOfModel = "Model name",

  // Texts of the module pages/agent/modelsettings.
  doesNotAcceptIt = "does not accept it",
  acceptsItOnlyWithReasoning = "accepts it only with the reasoning effort none",
  acceptsItOnlyWithoutTemperature = "accepts it only without a temperature",
  modelSettings = "Model settings",
  leaveFieldEmpty = "Leave a field empty to use the model’s default. The limits are those of the provider’s own service; other servers may accept more.",
  to2LowValues = "From 0 to 2. Lower values make answers more predictable.",
  to1ModelChooses = "From 0 to 1. The model chooses among the most likely tokens whose probabilities add up to this value.",
  ofOneAnswer = "The limit for one answer of the model, including its reasoning. A longer answer is truncated.",
  theModelsDefault = "The model’s default",
  howMuchModelReasons = "How much the model reasons before it answers.",
  wholeNumberSameSeed = "A whole number. With the same seed, answers are repeatable if the provider supports this.",
  onePerLineAtMost = "One text per line, at most four. The answer ends before the first of these texts. Write \\n for a line break.",
  allowed = "Allowed",
  oneToolAtTime = "One tool at a time",
  whetherModelMayRequest = "Whether the model may call several tools at once.",

  // Texts of the module pages/agent/output.
  answers = "Answers",
  textOrJson = "Text, or JSON that matches a schema. Each answer is checked before its run completes.",
  leaveEmptyForAnswers = "Leave empty for text answers. A request can specify another schema.",

  // Texts of the module pages/agent/preview.
  previewThePrompt = "Preview the prompt",
  input = "Input",
  inputOfTrigger = "The input that a trigger sends, as JSON.",
  session = "Session",
  preview = "Preview",
  promptAsModelGets = "Prompt that the model receives",

  // Texts of the module pages/agent/savebar.
  unsavedChanges = "Unsaved changes",
  savedChanges = "Saved changes",
  saved = "Saved",
  notSavedCorrectThese = "Not saved. Correct these fields:",
  unsavedChangesText = "Unsaved changes:",
  saveChanges = "Save changes",
  discard = "Discard",
  saving = "Saving …",
  nothingShownHere = "settings that this page does not show",
  yourChangesAndTheirs = "Your changes and theirs don’t overlap.",
  discardMineLoadTheirs = "Discard my changes and load theirs",
  applyMineOnTop = "Apply my changes on top of theirs",

  // Texts of the module pages/agent/settings.
  tools = "Tools",
  connections = "Connections",
  deleteIt = "Delete",
  youCanViewThese = "You can view these settings. Only admins and owners of the organization can change them.",
  deleteThisAgent = "Delete this agent",
  itsQueuedRuns = "The agent’s queued runs are cancelled. Finished runs stay readable. Requests that repeat an idempotency key still get the stored result.",
  deleteAgent = "Delete agent",

  // Texts of the module pages/agent/words.
  sideEffect = "Side effect",
  headers = "Headers",
  argumentsWord = "Arguments",
  signingSecret = "Signing secret",
  serverName = "Server name",
  serverUrl = "Server URL",
  sideEffectOfItsTools = "Side effects of its tools",
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
export const unsavedChangesDontApply = (href: string) => <>Unsaved changes don’t apply here. The agent uses its last saved settings. <a href={href}>Continue editing</a></>;

// Texts of the module pages/agent/basics.
export const agentsRoleHowItWorks = (length: string, most: string) => <>Describe the agent’s role, how it works, and what it must not do. Variables such as <code>{"{{now}}"}</code> and <code>{"{{input.customer}}"}</code> are filled in for each run. <span class="number">{length} of {most} characters</span></>;
export const questionN = (n: number): string => `Question ${n}`;
export const removeFallbackModelN = (n: number): string => `Remove fallback model ${n}`;
export const fallbackModelNumber = (number: number): string => `Fallback model ${number}`;

// Texts of the module pages/agent/draft.

// Texts of the module pages/agent/knowledge.
export const andIdsMore = (ids: number): string => `and ${ids} more`;
export const removeName = (name: string): string => `Remove ${name}`;
export const idsChosen = (ids: number): string => `${ids} chosen`;
export const noDocumentsYetAdd = () => <>No documents yet. <a href="/dashboard/knowledge">Add documents under Knowledge</a>.</>;

// Texts of the module pages/agent/modelpicker.
export const defaultOfTheService = (defaults: string): string => `Service default (${defaults})`;

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
export const nameWasDeleted = (name: string): string => `“${name}” was deleted.`;
export const deleteName = (name: string): string => `Delete “${name}”?`;

// Texts of the module pages/agent/words.
export const headerHeader = (header: string): string => `Header ${header}`;
export const fallbackModelAt = (at: number): string => `Fallback model ${at}`;
export const suggestedQuestionAt = (at: number): string => `Suggested question ${at}`;
export const allowedOriginDraft = (draft: string | number): string => `Allowed origin ${draft}`;
