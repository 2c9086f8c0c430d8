// Package agent handles the requests for agents and templates: reading, creation, change, deletion,
// check of the connections, import of an OpenAPI document, and preview of the system prompt.
// Requests to run an agent are in package run.
//
// A change is checked in two stages. The method Check of a body checks the fields without the
// database. The method apply merges the fields into the stored agent and checks the rules that
// depend on the previous state. It runs within the transaction of agentdb that increases the
// version.
//
// Secrets are the headers and signing secrets of tools, and the secret of the widget. They are
// encrypted before they are stored, and responses show "***" instead. A request that contains "***"
// keeps the stored secret, but only for the same server.
//
// Lists of models and checks of connections come from workers, because only workers have the keys
// of the providers. The package holds no state except a cache of the templates and counters for the
// limit of checks.
package agent
