package cli

import (
	"context"
	"math"
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
	service, err := a.connect(usual)
	if err != nil {
		return err
	}
	if a.Templates {
		return a.templates(ctx, con, service)
	}

	query := url.Values{}
	if a.Query != "" {
		query.Set("q", a.Query)
	}

	list, err := service.all(ctx, "/api/agents", query, math.MaxInt)
	if err != nil {
		return a.explain(err)
	}
	if a.JSON {
		return printList(con, list)
	}

	agents, err := entries[domain.Agent](list)
	if err != nil {
		return err
	}

	rows := [][]string{{"ID", "MODEL", "CALLERS", "NAME"}}
	for _, agent := range agents {
		callers := make([]string, len(agent.AllowedCallers))
		for i, kind := range agent.AllowedCallers {
			callers[i] = string(kind)
		}
		rows = append(rows, []string{agent.ID, or(agent.Model, "(default)"), strings.Join(callers, ","), console.OneLine(agent.Name)})
	}
	return table(con, rows)
}

// templates prints the templates, which the service returns on one page or several.
func (a *AgentsList) templates(ctx context.Context, con *console.Console, service *connection) error {
	list, err := service.all(ctx, "/api/agents/templates", url.Values{}, math.MaxInt)
	if err != nil {
		return a.explain(err)
	}
	if a.JSON {
		return printList(con, list)
	}

	templates, err := entries[domain.Template](list)
	if err != nil {
		return err
	}

	rows := [][]string{{"ID", "NAME", "DESCRIPTION"}}
	for _, t := range templates {
		rows = append(rows, []string{t.ID, console.OneLine(t.Name), console.OneLine(t.Description)})
	}
	return table(con, rows)
}
