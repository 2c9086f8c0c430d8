package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
)

// Runs groups the commands about runs.
type Runs struct {
	Tail   RunsTail   `cmd:"" aliases:"list" help:"List the newest runs, and follow changes."`
	Show   RunsShow   `cmd:"" help:"Show one run: its trigger, progress and answer."`
	Cancel RunsCancel `cmd:"" help:"Cancel a run."`
}

// RunsShow is the command that shows one run.
type RunsShow struct {
	Service
	ID string `arg:"" help:"ID of the run (run_…), from parley runs tail."`
}

// Help returns the description for the manual page of the command.
func (*RunsShow) Help() string {
	return `The exit status is 0 even if the run failed.`
}

// Examples returns the examples on the manual page of the command.
func (*RunsShow) Examples() string { return `parley runs show run_01m7yq6d4gehatajbks6zzn8ya` }

// Run shows the run. It does not wait for a run in progress.
func (r *RunsShow) Run(ctx context.Context, con *console.Console) error {
	service, err := r.connect(usual)
	if err != nil {
		return err
	}

	var run domain.Run
	answer, err := service.Get(ctx, "/api/runs", url.Values{"id": {r.ID}}, &run)
	if err != nil {
		return r.explain(describeNotFound(err, "run", r.ID))
	}
	if r.JSON {
		return con.JSON(json.RawMessage(answer.Body))
	}
	return printRun(con, service.url, &run)
}

// printRun prints the fields of a run that have a value, its tool calls, and its answer with the
// sources. service is the URL of the service, for the link to a required action.
func printRun(con *console.Console, service string, run *domain.Run) error {
	usage := fmt.Sprintf("%d input tokens, %d output tokens", run.Usage.InputTokens, run.Usage.OutputTokens)
	lines := [][2]string{
		{"run", run.ID},
		{"status", string(run.Status)},
		{"agent", target(run)},
		{"session", console.OneLine(run.SessionID)},
		{"trigger", trigger(run)},
		{"created", formatTime(&run.CreatedAt, "")},
		{"took", formatDuration(&run.CreatedAt, run.FinishedAt)},
		{"model", or(run.Usage.Model, "-")},
		{"usage", usage},
		{"attempts", fmt.Sprint(run.Attempts)},
	}
	if run.AgentVersion != nil {
		lines = append(lines, [2]string{"version", fmt.Sprint(*run.AgentVersion)})
	}
	if run.FinishReason != nil {
		lines = append(lines, [2]string{"finish", string(*run.FinishReason)})
	}
	if run.IdempotencyKey != nil {
		lines = append(lines, [2]string{"key", console.OneLine(*run.IdempotencyKey)})
	}
	if run.Error != nil {
		lines = append(lines, [2]string{"error", console.OneLine(run.Error.Code + ": " + run.Error.Message)})
		if p := run.Error.Provider; p != nil {
			lines = append(lines, [2]string{"provider", console.OneLine(fmt.Sprintf("%d %s", p.Status, p.Message))})
		}
	}

	for _, call := range run.ToolCalls {
		says := fmt.Sprintf("%s %s, %d ms: %s", console.OneLine(call.Name), call.Status, call.DurationMS, console.OneLine(string(call.Input)))
		lines = append(lines, [2]string{"tool", says})
	}

	for _, line := range lines {
		if err := con.Printf("%-9s %s\n", line[0], line[1]); err != nil {
			return err
		}
	}

	if run.RequiredAction != nil {
		con.Notef("%s", waitsFor(service, run.ID, run.RequiredAction))
	}
	if run.Message == nil {
		return nil
	}
	if err := con.Printf("\n%s\n", console.Safe(*run.Message)); err != nil {
		return err
	}
	return printSources(con, run.Citations)
}

// target returns the ID of the agent or template that the run executes.
func target(run *domain.Run) string {
	switch {
	case run.AgentID != nil:
		return *run.AgentID
	case run.TemplateID != nil:
		return *run.TemplateID
	default:
		return "-"
	}
}

// trigger returns the type of the run's trigger and, if there is one, the ID of the automation.
func trigger(run *domain.Run) string {
	if run.Trigger.AutomationID == nil {
		return run.Trigger.Type
	}
	return run.Trigger.Type + " " + console.OneLine(*run.Trigger.AutomationID)
}

// RunsCancel is the command that cancels a run.
type RunsCancel struct {
	Service
	ID string `arg:"" help:"ID of the run (run_…)."`
}

// Help returns the description for the manual page of the command.
func (*RunsCancel) Help() string {
	return `Cancelling a finished run changes nothing. Effects that the run has already had are not undone.`
}

// Examples returns the examples on the manual page of the command.
func (*RunsCancel) Examples() string { return `parley runs cancel run_01m7yq6d4gehatajbks6zzn8ya` }

// Run cancels the run and prints its status. If the run has already finished, its status does not
// change.
func (r *RunsCancel) Run(ctx context.Context, con *console.Console) error {
	service, err := r.connect(usual)
	if err != nil {
		return err
	}

	answer, err := service.Call(ctx, parley.Request{
		Method: http.MethodPost, Path: "/api/runs", Query: url.Values{"id": {r.ID}, "action": {"cancel"}}, Keyed: true, // idempotent
	})
	if err != nil {
		return r.explain(describeNotFound(err, "run", r.ID))
	}
	if r.JSON {
		return con.JSON(json.RawMessage(answer.Body))
	}

	var run domain.Run
	if err := answer.Into(&run); err != nil {
		return err
	}
	if run.Status != domain.RunCancelled && run.Status.Terminal() {
		con.Notef("the run had already finished")
	}
	return con.Printf("%s %s\n", run.ID, run.Status)
}
