// Package agent answers what agents and templates are.
package agent
