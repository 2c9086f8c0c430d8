// Package mcp serves agents as the tools of an MCP server.
package mcp
