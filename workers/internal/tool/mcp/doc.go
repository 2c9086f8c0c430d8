// Package mcp implements the tool mcp in the tool worker: the tools of remote MCP servers over
// streamable HTTP.
//
//	list ─► all servers in parallel ─► cached for 5 minutes ─► names, texts and schemas sanitized ─► specs
//	call ─► name ─► server and the tool's own name ─► session ─► Sending ─► tools/call, once ─► output
//
// A session lasts for one listing or one call, because the next call may reach another tool worker.
// The request tools/call is sent at most once. Neither the MCP library nor the HTTP client repeats
// it, and a broken response is not resumed.
//
// Servers are untrusted. Their statements about side effects and their instructions are ignored.
// Servers get no access to models (sampling), people (elicitation) or files (roots). Requests go
// only to the address that the organization configured, and redirects are not followed.
//
// The files are:
//
//   - mcp.go: a call, from the name in it to its result
//   - list.go, schema.go, sanitize.go and tool_name.go: the lists of tools, as models see them
//   - cache.go: the lists of this process
//   - session.go and wire.go: a session and its HTTP requests
//   - output.go: the reply to a call, as the model sees it
//   - check.go: the check of a server's settings
package mcp
