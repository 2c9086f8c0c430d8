package cli

import (
	"context"
	"net/url"
	"strings"

	"parley/deploy/standalone/internal/console"
	"parley/shared/domain"
)

// Agents groups the commands about agents.
type Agents struct {
	List AgentsList `cmd:"" help:"List the organization's agents, or the templates."`
}

// AgentsList is the command that lists agents or templates.
type AgentsList struct {
	Service
	Query     string `name:"query" short:"q" placeholder:"TEXT" help:"Only agents whose name contains TEXT."`
	Templates bool   `name:"templates" help:"List the templates; you can chat with templates as with agents."`
}

// Examples returns the examples on the manual page of the command.
func (*AgentsList) Examples() string {
	return `parley agents list
parley agents list --templates --json`
}

// Run prints the agents or templates, the newest first. It requests all pages, so the list is
// complete.
func (a *AgentsList) Run(ctx context.Context, con *console.Console) error {
	if a.Templates {
		return printAll(ctx, con, &a.Service, "/api/agents/templates", url.Values{}, []string{"ID", "NAME", "DESCRIPTION"},
			func(t domain.Template) []string {
				return []string{t.ID, console.OneLine(t.Name), console.OneLine(t.Description)}
			})
	}

	query := url.Values{}
	if a.Query != "" {
		query.Set("q", a.Query)
	}

	header := []string{"ID", "MODEL", "CALLERS", "NAME"}
	return printAll(ctx, con, &a.Service, "/api/agents", query, header, func(agent domain.Agent) []string {
		callers := make([]string, len(agent.AllowedCallers))
		for i, kind := range agent.AllowedCallers {
			callers[i] = string(kind)
		}
		return []string{agent.ID, or(agent.Model, "(default)"), strings.Join(callers, ","), console.OneLine(agent.Name)}
	})
}
