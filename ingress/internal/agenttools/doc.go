// Package agenttools offers agents as the tools of an MCP server, using the protocol's official
// SDK. The server keeps no sessions: each request is independent, and the interface Agents decides
// which agents its caller may list and call.
//
//	POST /mcp ──► Server.Serve ──► SDK: transport, JSON-RPC, versions of the protocol
//	                                └──► tools/list ──► Agents.List
//	                                └──► tools/call ──► Agents.Run, with its progress ──► result
package agenttools
