package domain

// AgentCheck is the result of a check of an agent's connections.
type AgentCheck struct {
	Version   int     `json:"version"` // the agent's version that was checked
	CheckedAt Time    `json:"checkedAt"`
	OK        bool    `json:"ok"` // every connection works
	Checks    []Check `json:"checks"`
}

// Check is the result for one connection.
type Check struct {
	Kind       CheckKind `json:"kind"`
	Name       string    `json:"name"` // the model, search provider, MCP server or endpoint
	OK         bool      `json:"ok"`
	Detail     string    `json:"detail"` // a sentence for the user: the result, or the reason why the connection does not work
	DurationMS int64     `json:"durationMs"`
}

// CheckKind is the kind of a connection.
type CheckKind string

// The kinds of connections. CheckWorker is used if no worker was available to check the
// connections.
const (
	CheckModel       CheckKind = "model"
	CheckWebSearch   CheckKind = "webSearch"
	CheckMCP         CheckKind = "mcp"
	CheckHTTPRequest CheckKind = "httpRequest"
	CheckWorker      CheckKind = "worker"
)
