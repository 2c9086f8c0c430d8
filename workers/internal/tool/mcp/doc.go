// Package mcp is the tool mcp, on the tool worker's side: the tools of remote MCP servers, over streamable HTTP.
//
//	list ─► each server, side by side ─► kept 5 minutes ─► names, texts and schemas made fit ─► specs
//	call ─► name ─► server and its own name for the tool ─► session ─► Sending ─► tools/call, once ─► output
//
// A session lasts for one listing or one call: the next call may come to another tool worker. The request tools/call is
// written at most once; neither the protocol's library nor HTTP sends it again, and a broken answer is not resumed.
//
// A server is foreign. What it says of its tools' side effects is not believed, its instructions are not read, and it is
// offered neither models (sampling) nor people (elicitation) nor files (roots). Requests go to the address that the
// organization listed, nowhere else, and redirects are not followed.
package mcp
