// The texts of the list of agents.

export enum Words {
  // Texts of the module pages/agents.
  agents = "Agents",
  listAgents = "List agents",
  newAgent = "New agent",
  eachAgentHasInstructions = "Each agent has instructions, a model, and the tools that it may use.",
  showAll = "Show all",
  searchAgentsByName = "Search agents by name",
  searchByName = "Search by name",
  noAgentsYet = "No agents yet",
  createAnAgent = "Create an agent",
  releaseNotes = "Release notes",
  youWriteShortRelease = "You write short release notes.",
  startWithName = "Start with a name and instructions, or with a template.",
  adminsOfOrganizationCreate = "Only admins of the organization can create agents.",
  agent = "Agent",
  schedulersOnly = "schedulers only",
  model = "Model",
  tools = "Tools",
  changed = "Changed",
  actions = "Actions",
  none = "none",
  settings = "Settings",
  deleteIt = "Delete",

  // Texts of the module pages/agents/create.
  createTheAgent = "Create the agent",
  cancel = "Cancel",
  createAgent = "Create agent",
  name = "Name",
  shownToPeopleYou = "The name that people see. You can change it later.",
  ifEmptyTemplatesName = "If empty, the template's name is used.",
  systemPrompt = "System prompt",
  youWriteShortReleaseNotes = "You write short release notes. Group the changes by their benefit to users.",
  agentsRoleHowItWorks = "Describe the agent's role, how it works, and what it must not do. You can choose tools and the model later, under Settings.",
  suggestedQuestions = "Suggested questions",
  onePerLine = "One question per line, at most six. If empty, the playground offers the questions shown here.",
  onePerLineElseTemplates = "One question per line, at most six. If empty, the template's questions are used.",
  startFrom = "Start from",
  anEmptyAgent = "An empty agent",
  youWriteInstructions = "You write the instructions yourself.",
}

// Texts of the module pages/agents.
export const noAgentNameContains = (value: string): string => `No agent name contains “${value}”.`;
export const agentAnswersPeople = (part: string): string => `An agent answers people in a chat or on your own pages, or runs on a schedule. ${part}`;
export const nameWasDeleted = (name: string): string => `“${name}” was deleted.`;
export const settingsOfName = (name: string): string => `Settings of ${name}`;
export const deleteName = (name: string): string => `Delete ${name}`;
export const deleteNameQuestion = (name: string): string => `Delete “${name}”?`;

// Texts of the module pages/agents/create.
export const questionN = (n: number): string => `Question ${n}`;

// Texts of the module pages/agents/delete.
export const canNoLonger = (name: string): string => `“${name}” can no longer be called, and its queued runs are cancelled. Finished runs stay readable. This can't be undone.`;
