// Package agent handles the requests for agents and templates.
package agent
