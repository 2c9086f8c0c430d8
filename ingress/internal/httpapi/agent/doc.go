// Package agent handles the requests for agents and templates: reading, creation, change, deletion,
// check of the connections, import of an OpenAPI document, and preview of the system prompt.
// Requests to run an agent are in package run.
//
// A change flows through two stages. Check of a body verifies the fields by themselves, without the
// database. apply then merges them into the stored agent, within the transaction of agentdb that
// increases the version, and verifies the rules that depend on the previous state.
//
// Secrets are the headers and signing secrets of tools, and the secret of the widget. They are
// encrypted before they are stored, and responses show "***" instead. A request that contains "***"
// keeps the stored secret, but only for the same server.
//
// Lists of models and checks of connections come from workers, because only workers have the keys
// of the providers. The package holds no state except a cache of the templates and counters for the
// limit of checks.
package agent
