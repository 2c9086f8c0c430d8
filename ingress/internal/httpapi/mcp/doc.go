// Package mcp provides agents as the tools of an MCP server.
package mcp
