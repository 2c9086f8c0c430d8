// The texts of the finder.

export enum Words {
  // Texts of the module finder.
  page = "Page",
  action = "Action",
  usageAndBudgets = "Usage and budgets",
  notifications = "Notifications",
  newAgent = "New agent",
  newWebhook = "New webhook",
  uploadADocument = "Upload a document",
  createApiKey = "Create an API key",
  runsThatNeedYou = "Runs waiting for you",
  failedRuns = "Failed runs",
  documentation = "Documentation",
  apiReference = "API reference",
  lightTheme = "Light theme",
  darkTheme = "Dark theme",
  themeOfSystem = "System theme",
  keyboardShortcuts = "Keyboard shortcuts",
  signOut = "Sign out",
  agent = "Agent",
  template = "Template",
  document = "Document",
  webhook = "Webhook",
  automation = "Automation",
  run = "Run",
  search = "Search",
  find = "Find",
  pagesAgentsDocumentsRuns = "Pages, agents, documents, webhooks, automations, runs and actions",
  found = "Found",
  noPageAgentDocument = "Nothing has this name. Search the runs or the documentation.",
  ctrlKOrK = "Ctrl K or ⌘ K",
  findPagesAgentsDocuments = "Find pages, agents, documents, webhooks, runs and actions",
  searchOnThisPage = "Search on this page, or open Find",
  showTheseShortcuts = "Show these shortcuts",
  esc = "Esc",
  closeDialogOrMenu = "Close a dialog or a menu",
  sendMessageShiftEnter = "Send a message; Shift+Enter starts a new line",
  muteMicrophoneWhileFocus = "Mute the microphone while the focus is in the voice panel",
  shortcutsOfSingleKey = "Single-key shortcuts",
  keysAnd = "The / and ? keys.",
  pageAgentDocument = "Name, run id, or words in a run",
  couldntLoadAllAgents = "Couldn’t load all names. Check the connection and try again.",
}

// Texts of the module finder.
export const runsWithTyped = (typed: string): string => `Runs with “${typed}”`;
export const documentationAboutTyped = (typed: string): string => `Documentation about “${typed}”`;
