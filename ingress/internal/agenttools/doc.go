// Package agenttools shows agents as the tools of an MCP server, by the protocol's official SDK. It keeps no sessions: each
// request stands alone, and what its caller may list and call is behind the interface Agents.
//
//	POST /mcp ──► Server.Serve ──► SDK: transport, JSON-RPC, versions of the protocol
//	                                └──► tools/list ──► Agents.List
//	                                └──► tools/call ──► Agents.Run, with its progress ──► result
package agenttools
