// Package usage handles the requests for an organization's usage, budgets, automations and limits.
package usage
