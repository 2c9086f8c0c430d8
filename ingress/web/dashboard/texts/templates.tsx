// The texts of the templates.

export enum Words {
  // Texts of the module pages/templates.
  templateNotFound = "Template not found",
  template = "Template",
  thisTemplateDoesntExist = "This template doesn’t exist",
  goToTemplates = "Go to templates",
  linkMayBeIncomplete = "The link may be incomplete.",
  templates = "Templates",
  listTemplates = "List templates",
  agentsThatAreReady = "Agents that are ready to use. Choose an agent and ask it something.",
  agentsThatAreReadyToUse = "Agents that are ready to use. Try an agent here, or create your own agent from it.",
  chat = "Chat",
  createAnAgent = "Create an agent",
  tools = "Tools",
  createAgentFromThisTemplate = "Create an agent from this template",

  // Texts of the module pages/templates/create.
  createThisAgent = "Create this agent",
  cancel = "Cancel",
  createAgent = "Create agent",
  name = "Name",

  // Texts of the module pages/templates/demobar.
  fewRequestsPerMinute = "a few requests per minute",
  demo = "Demo",

  // Texts of the module pages/templates/words.
  searchesTheWeb = "searches the web",
  runsPython = "runs Python",
  readsYourDocuments = "reads your documents",
  callsHttpEndpoints = "calls HTTP endpoints",
  usesMcpServers = "uses MCP servers",
  speaks = "speaks",
  needsNoTools = "needs no tools",
}

// Texts of the module pages/templates.
export const chatWithName = (name: string): string => `Chat with ${name}`;
export const createAgentFrom = (name: string): string => `Create an agent from ${name}`;

// Texts of the module pages/templates/create.
export const nameWasCreated = (name: string): string => `“${name}” was created.`;
export const agentStartsWithInstructions = (name: string): string => `The agent starts with the instructions and tools of “${name}”. You can change them later.`;

// Texts of the module pages/templates/demobar.
export const maxRequestsPerMinute = (max: number): string => `${max} requests per minute`;
export const maxRequestsInWindowSeconds = (max: number, windowSeconds: number): string => `${max} requests in ${windowSeconds} s`;
export const thisIsDemoYou = (max: string) => <><strong>This is the demo.</strong> You can chat with templates, with up to {max}. Your messages are private, and stored for one day. <span><a href="/signup">Sign up</a> to create your own agents, give them documents and run them on a schedule.</span></>;
