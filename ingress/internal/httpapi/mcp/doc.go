// Package mcp provides agents as the tools of an MCP server. An assistant that supports the Model
// Context Protocol can thus call an organization's agents.
//
//	POST /mcp ─► envelope checks ─► agenttools.Server (SDK) ─► agentTools ─► dispatch
//	                                      └─► mcpWriter ─► response or event stream
//
// Each request contains one JSON-RPC message and is authenticated by an API key. The server is
// stateless: it lists the agents for each request and keeps no session. It uses a client's session
// id only to find the request that a later message cancels.
//
// Package agenttools contains the protocol, on top of the MCP SDK. This package checks the message
// before the SDK reads it, starts runs for tool calls, and reports their progress. It also replaces
// the SDK's plain-text errors by errors in the API's format.
package mcp
