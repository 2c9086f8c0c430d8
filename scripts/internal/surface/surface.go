// Package surface lists the SDK methods for each operation of the OpenAPI document, and the reasons
// why other operations have no method.
//
// A method is named group.method, in the spelling of the TypeScript SDK. Python uses snake_case,
// and Go capitalizes the name. Tests compare the list with the document and with the three SDKs.
//
// A new operation of the document needs an entry here. Either the three SDKs get a method, or the
// entry contains the reason. Command sdkgen generates Go types only for operations with methods.
package surface

// Operation is an operation of the OpenAPI document, or one action of an operation. Either SDK or
// None is set. Several methods may send the same operation.
type Operation struct {
	ID     string   // operationId in the document
	Action string   // value of the query parameter action; empty: the operation without an action
	SDK    []string // names of the methods that send the operation
	None   string   // reason why there is no method; empty if there is one
}

// Reasons why an operation has no method.
const (
	people   = "people manage accounts in the dashboard, with a login session"
	sender   = "the source of a webhook sends it"
	browser  = "the widget sends it: only a browser sends the page's origin"
	watching = "for pages that stay current; programs use runs.wait, runs.stream or notifications"
	openai   = "OpenAI's clients send it"
	mcp      = "MCP clients send it"
	monitor  = "for monitoring, not for programs that use agents"
	document = "a document for readers"
	choosing = "for forms in which people choose a model"
	sampling = "people add the sample documents in the dashboard"
	link     = "people open the link in a browser, without a credential"
)

// Operations lists every operation of the document, in the document's order.
var Operations = []Operation{
	{ID: "getAgents", SDK: []string{"agents.get", "agents.list"}},
	{ID: "postAgents", SDK: []string{"agents.create"}},
	{ID: "postAgents", Action: "chat", SDK: []string{"chat.send", "chat.stream"}},
	{ID: "postAgents", Action: "import-openapi", SDK: []string{"agents.importEndpoints"}},
	{ID: "postAgents", Action: "check", SDK: []string{"agents.check"}},
	{ID: "postAgents", Action: "preview", SDK: []string{"agents.preview"}},
	{ID: "putAgents", SDK: []string{"agents.update"}},
	{ID: "deleteAgents", SDK: []string{"agents.delete"}},
	{ID: "createWidgetSession", None: browser},
	{ID: "getModelList", None: choosing},
	{ID: "getTemplates", SDK: []string{"templates.get", "templates.list"}},
	{ID: "runAutomation", SDK: []string{"automations.run"}},
	{ID: "getHooks", SDK: []string{"hooks.get", "hooks.list"}},
	{ID: "postHooks", SDK: []string{"hooks.create"}},
	{ID: "postHooks", Action: "rotate", SDK: []string{"hooks.rotateSecret"}},
	{ID: "postHooks", Action: "test", SDK: []string{"hooks.test"}},
	{ID: "putHooks", SDK: []string{"hooks.update"}},
	{ID: "deleteHooks", SDK: []string{"hooks.delete"}},
	{ID: "getDeliveries", SDK: []string{"hooks.getDelivery", "hooks.listDeliveries"}},
	{ID: "postDeliveries", Action: "redeliver", SDK: []string{"hooks.redeliver"}},
	{ID: "receiveDelivery", None: sender},
	{ID: "getRuns", SDK: []string{"runs.get", "runs.list", "runs.wait", "runs.stream", "runs.timeline"}},
	{ID: "postRuns", Action: "cancel", SDK: []string{"runs.cancel"}},
	{ID: "postRuns", Action: "approve", SDK: []string{"runs.act"}},
	{ID: "postRuns", Action: "deny", SDK: []string{"runs.act"}},
	{ID: "postRuns", Action: "happened", SDK: []string{"runs.act"}},
	{ID: "postRuns", Action: "resend", SDK: []string{"runs.act"}},
	{ID: "postRuns", Action: "abandon", SDK: []string{"runs.act"}},
	{ID: "postRuns", Action: "tool-results", SDK: []string{"runs.submitToolResults"}},
	{ID: "getEvents", None: watching},
	{ID: "getAutomations", SDK: []string{"automations.get", "automations.list"}},
	{ID: "getUsage", SDK: []string{"usage.get"}},
	{ID: "getHome", None: people},
	{ID: "getBudgets", SDK: []string{"budgets.get", "budgets.list"}},
	{ID: "postBudgets", SDK: []string{"budgets.create"}},
	{ID: "putBudgets", SDK: []string{"budgets.update"}},
	{ID: "deleteBudgets", SDK: []string{"budgets.delete"}},
	{ID: "getSources", SDK: []string{"sources.get"}},
	{ID: "openFileLink", None: link},
	{ID: "getFiles", SDK: []string{"files.download"}},
	{ID: "postFiles", SDK: []string{"files.upload"}},
	{ID: "getKnowledge", SDK: []string{
		"knowledge.get", "knowledge.list", "knowledge.search", "knowledge.wait", "knowledge.download", "knowledge.page", "knowledge.passages",
	}},
	{ID: "postKnowledge", SDK: []string{"knowledge.upload"}},
	{ID: "postKnowledge", Action: "retry", SDK: []string{"knowledge.retry"}},
	{ID: "putKnowledge", SDK: []string{"knowledge.update"}},
	{ID: "deleteKnowledge", SDK: []string{"knowledge.delete"}},
	{ID: "getSamples", None: sampling},
	{ID: "postSamples", None: sampling},
	{ID: "getNotifications", SDK: []string{"notifications.get", "notifications.list"}},
	{ID: "postNotifications", SDK: []string{"notifications.create"}},
	{ID: "postNotifications", Action: "rotate", SDK: []string{"notifications.rotateSecret"}},
	{ID: "postNotifications", Action: "test", SDK: []string{"notifications.test"}},
	{ID: "putNotifications", SDK: []string{"notifications.update"}},
	{ID: "deleteNotifications", SDK: []string{"notifications.delete"}},
	{ID: "getNotificationMessages", SDK: []string{"notifications.getMessage", "notifications.listMessages"}},
	{ID: "postNotificationMessages", Action: "resend", SDK: []string{"notifications.resend"}},
	{ID: "getSessions", SDK: []string{"sessions.get", "sessions.list"}},
	{ID: "deleteSessions", SDK: []string{"sessions.delete"}},
	{ID: "getKeys", SDK: []string{"keys.get", "keys.list"}},
	{ID: "postKeys", SDK: []string{"keys.create"}},
	{ID: "postKeys", Action: "rotate", SDK: []string{"keys.rotate"}},
	{ID: "deleteKeys", SDK: []string{"keys.delete"}},
	{ID: "getOrganizations", None: people},
	{ID: "postOrganizations", None: people},
	{ID: "putOrganizations", None: people},
	{ID: "getLimits", SDK: []string{"usage.limits"}},
	{ID: "getMembers", None: people},
	{ID: "postMembers", None: people},
	{ID: "postMembers", Action: "reset", None: people},
	{ID: "deleteMembers", None: people},
	{ID: "signUp", None: people},
	{ID: "logIn", None: people},
	{ID: "acceptInvitation", None: people},
	{ID: "resetPassword", None: people},
	{ID: "getSession", None: people},
	{ID: "getLoginSessions", None: people},
	{ID: "deleteLoginSessions", None: people},
	{ID: "getOwnInvitations", None: people},
	{ID: "answerInvitation", Action: "accept", None: people},
	{ID: "answerInvitation", Action: "decline", None: people},
	{ID: "logOut", None: people},
	{ID: "beginOidc", None: people},
	{ID: "finishOidc", None: people},
	{ID: "listModels", None: openai},
	{ID: "getModel", None: openai},
	{ID: "createCompletion", None: openai},
	{ID: "createEmbeddings", None: openai},
	{ID: "createResponse", None: openai},
	{ID: "getResponse", None: openai},
	{ID: "cancelResponse", None: openai},
	{ID: "getContainerFile", None: openai},
	{ID: "connectRealtime", None: openai},
	{ID: "createClientSecret", None: openai},
	{ID: "postMcp", None: mcp},
	{ID: "healthz", None: monitor},
	{ID: "readyz", None: monitor},
	{ID: "metrics", None: monitor},
	{ID: "openapi", None: document},
	{ID: "docs", None: document},
	{ID: "docsApi", None: document},
	{ID: "docsErrors", None: document},
	{ID: "llms", None: document},
}

// Extra lists the methods that only some SDKs have, by SDK: "go", "python" or "typescript".
var Extra = map[string][]string{
	"go":         {"knowledge.add", "knowledge.replace"}, // in the other SDKs, one method takes arguments of several types
	"python":     {"chat.parse", "automations.parse"},    // the Go SDK has Run.Parse instead
	"typescript": {"chat.parse", "automations.parse", "runs.runTools"},
}

// Methods returns the set of all methods of an SDK: the methods that all SDKs have, and the methods
// in the SDK's entry of Extra.
func Methods(sdk string) map[string]bool {
	all := map[string]bool{}
	for _, o := range Operations {
		for _, method := range o.SDK {
			all[method] = true
		}
	}
	for _, method := range Extra[sdk] {
		all[method] = true
	}
	return all
}
