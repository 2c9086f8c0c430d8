// The texts of the tools of an agent: endpoints, MCP servers, secrets and connections.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/agent/connections.
  model = "Model",
  webSearch = "Web search",
  mcpServer = "MCP server",
  endpoint = "Endpoint",
  worker = "Worker",
  connections = "Connections",
  triesEachModel = "Calls each model with a few tokens, lists the tools of each MCP server, runs one web search, and connects to each endpoint’s host without sending a request.",
  testConnections = "Test connections",
  testing = "Testing …",
  unsavedChangesAreNotTested = "Unsaved changes are not tested.",
  notTestedYet = "Not tested yet.",
  connection = "Connection",
  result = "Result",
  time = "Time",

  // Texts of the module pages/agent/endpoints.
  none = "None",
  idempotent = "Idempotent",
  unsafe = "Unsafe",
  repeatingCallHasNoFurther = "Repeating a call has no further effect. A failed call is retried.",
  repeatingCallWithSame = "Repeating a call with the same Idempotency-Key has no further effect. A failed call is retried with that key.",
  repeatingCallRepeats = "Repeating a call repeats its effect. Parley sends each call at most once; if the outcome is unknown, a person decides.",
  noEndpointsYetAdd = "No endpoints yet. Add one, or import the endpoints of an OpenAPI document.",
  httpEndpoints = "HTTP endpoints",
  theList = "The list",
  addAnEndpoint = "Add an endpoint",
  importFromOpenapi = "Import from OpenAPI",
  newEndpoint = "New endpoint",
  needsCorrection = "needs correction",
  removeThisEndpoint = "Remove this endpoint",
  name = "Name",
  toolsNameForModel = "The name by which the model calls this tool: letters, digits, _ and -.",
  method = "Method",
  url = "URL",
  nameInPath = "{name} in the path or query is replaced by an argument. The host is fixed.",
  description = "Description",
  explainsToModel = "Explains to the model when to call the endpoint.",
  sideEffect = "Side effect",
  headers = "Headers",
  sentWithEachCall = "Sent with each call, for example a credential. Values are encrypted, and shown as *** once saved. Type to replace a value.",
  header = "Header",
  addAHeader = "Add a header",
  signingSecret = "Signing secret",
  signsRequestsAccording = "Used to sign the requests according to Standard Webhooks. Enter whsec_ followed by base64.",
  argumentsWord = "Arguments",
  jsonSchemaOfArguments = "A JSON Schema of the arguments. If empty, each variable in the URL is a required string.",
  formatJson = "Format JSON",

  // Texts of the module pages/agent/import.
  importEndpoints = "Import endpoints",
  cancel = "Cancel",
  importWord = "Import",
  endpointsHaveUnsavedChanges = "The endpoints have unsaved changes. Save or discard them first, because importing changes the saved agent.",
  fileIsLarger = "The file is larger than 2 MiB. Choose a smaller file.",
  document = "Document",
  openapi30 = "OpenAPI 3.0 or 3.1 as JSON or YAML. Paste it, or choose a file.",
  openapiFile = "OpenAPI file",
  operations = "Operations",
  oneOperationPerLine = "One operation per line: an operationId, or a method and a path like GET /tickets/{id}. If empty, all operations are imported, up to 32.",
  server = "Server",
  servicesBaseUrl = "The base URL of the API. If empty, the server in the document is used.",
  sentWithEveryImported = "Sent with every imported endpoint, for example a credential. If you enter none, replaced endpoints keep their headers.",
  nothingWasImported = "Nothing was imported",
  done = "Done",
  endpointsAreSaved = "The endpoints are saved, and the tool is on. PUT and DELETE count as idempotent, POST and PATCH as unsafe. Check each endpoint.",
  skipped = "Skipped",

  // Texts of the module pages/agent/pairs.
  value = "Value",

  // Texts of the module pages/agent/secret.
  noneLower = "none",
  generate = "Generate",
  remove = "Remove",
  copyItNow = "Copy the secret now. It is not shown again after saving.",
  secretIsSavedShown = "A secret is saved, shown as ***. Type to replace it.",
  secretIsRemoved = "The secret is removed when you save.",

  // Texts of the module pages/agent/servers.
  noServersYet = "No servers yet. Each run lists the tools of all servers when it starts. The model sees each tool as server_tool.",
  mcpServers = "MCP servers",
  thisServer = "this server",
  addAServer = "Add a server",
  serverName = "Server name",
  prefixOfItsTools = "The prefix of the names of the server’s tools.",
  serverUrl = "Server URL",
  streamableHttp = "Streamable HTTP.",
  sideEffectOfItsTools = "Side effects of its tools",
  sentWithEachRequest = "Sent with each request. Values are encrypted, and shown as *** once saved. Type to replace a value.",

  // Texts of the module pages/agent/tools.
  tools = "Tools",
  toolsThatAgent = "The tools that the agent may use. A run uses the tools that were on when it was accepted.",
  searchesWebReads = "Searches the web, reads the pages that it finds, and cites them.",
  searchesYourOrganizationsDocuments = "Searches your organization’s documents and cites them.",
  writesAndRunsPython = "Writes and runs Python, each call in a fresh sandbox without network access.",
  keepFiles = "Keep files",
  callsInSessionShare = "Calls in a session share a working folder while the session’s runs are stored. If this is off, a call sees only the files that it names.",
  callsEndpointsListedHere = "Calls the endpoints listed here, and no others.",
  usesToolsOfRemote = "Uses the tools of remote MCP servers.",
  letsPeopleSpeak = "Lets people speak with the agent, in the playground and over the API.",
  voice = "Voice",
  openaisVoiceNames = "OpenAI’s voice names, for example alloy, echo, nova or shimmer, always work. Other names depend on the speech service (espeak-ng: en-gb, en-us+f3). If empty, the speech service chooses.",
  never = "Never",
  beforeUnsafeCalls = "Before unsafe calls",
  beforeEachCall = "Before each call",
  callsAreMadeImmediately = "Calls are made immediately, without a decision.",
  runWaitsForPersons = "The run waits for a person’s decision before a call whose side effect is unsafe: repeating such a call repeats its effect.",
  runWaitsUpTo24 = "The run waits up to 24 hours for a person’s decision before each call to this tool.",
  searchesHaveNoSide = "Searches have no side effects, so no decision is needed.",
  programsRunInSandbox = "Programs run in a sandbox and count as free of side effects, so no decision is needed.",
  askPersonFirst = "Ask a person first",
}

// Texts of the module pages/agent/connections.
export const beforeLastChangeVersion = (version: number): string => `, before the last change (version ${version})`;
export const testedTimeVersion = (time: ComponentChildren, version: ComponentChildren) => <>Tested {time}{version}</>;

// Texts of the module pages/agent/endpoints.
export const entriesOfMax = (entries: number, max: number): string => `${entries} of ${max}`;

// Texts of the module pages/agent/import.
export const importedImported = (imported: number): string => `Imported ${imported}`;

// Texts of the module pages/agent/pairs.
export const valueOfName = (name: string): string => `Value of ${name}`;
export const removeName = (name: string): string => `Remove ${name}`;

// Texts of the module pages/agent/secret.
export const generateLabel = (label: string): string => `Generate: ${label}`;
export const copyLabel = (label: string): string => `Copy: ${label}`;
export const removeLabel = (label: string): string => `Remove: ${label}`;

// Texts of the module pages/agent/servers.
export const serversOfMax = (servers: number, max: number): string => `${servers} of ${max}`;
