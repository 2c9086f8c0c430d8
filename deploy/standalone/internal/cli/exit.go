package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/lifecycle"
)

// The exit statuses of the program.
const (
	ExitDone        = 0
	ExitFailure     = 1
	ExitRunFailed   = 2
	ExitRefused     = 3
	ExitNotEnded    = 4
	ExitArguments   = 80
	ExitInterrupted = 130
)

// statuses describes each exit status.
var statuses = map[int]string{
	ExitDone:        "Done.",
	ExitFailure:     "Failure: the service is unreachable or broken, or the command failed.",
	ExitRunFailed:   "The run failed, was cancelled or timed out.",
	ExitRefused:     "The service rejected the request with a status from 400 to 499, for example because of an invalid key or a limit.",
	ExitNotEnded:    "The run did not finish in time. It continues.",
	ExitArguments:   "An argument or a setting in the environment is invalid.",
	ExitInterrupted: "Interrupted by Ctrl-C (143: by SIGTERM).",
}

// coded is an error with the exit status of the command that returns it.
type coded struct {
	code int
	err  error
}

// Error returns the text of the error without the status.
func (e *coded) Error() string { return e.err.Error() }

// Unwrap returns the error without the status.
func (e *coded) Unwrap() error { return e.err }

// exit returns an error with the exit status code. The text is formatted as by fmt.Errorf.
func exit(code int, format string, args ...any) error {
	return &coded{code, fmt.Errorf(format, args...)}
}

// Code returns the exit status of a command that returned err. If a signal has canceled ctx, the
// status is 128 plus the signal's number. An error without a known cause has the status
// ExitFailure.
func Code(ctx context.Context, err error) int {
	if err == nil {
		return ExitDone
	}
	if signal, is := errors.AsType[*lifecycle.SignalError](context.Cause(ctx)); is {
		if number, is := signal.Signal.(syscall.Signal); is {
			return 128 + int(number)
		}
		return ExitInterrupted
	}
	if known, is := errors.AsType[*coded](err); is {
		return known.code
	}
	if _, is := errors.AsType[*kong.ParseError](err); is {
		return ExitArguments
	}
	if _, is := errors.AsType[*config.InvalidError](err); is {
		return ExitArguments
	}
	if _, is := errors.AsType[*parley.TextError](err); is {
		return ExitArguments
	}
	if problem, is := errors.AsType[*parley.APIError](err); is && problem.Refused() {
		return ExitRefused
	}
	return ExitFailure
}

// interruption is the error after Ctrl-C. The field says is a note for the user, or empty. Complain
// prints only this note, because the user knows the cause.
type interruption struct {
	says  string
	cause error
}

// Error returns the note.
func (e *interruption) Error() string { return e.says }

// Unwrap returns the cause of the interruption.
func (e *interruption) Unwrap() error { return e.cause }

// outcome returns nil if the run has completed. Otherwise it returns an error that describes the
// run's status.
func outcome(run *domain.Run) error {
	switch {
	case run.Status == domain.RunCompleted:
		return nil
	case run.Error != nil:
		e := run.Error
		return exit(ExitRunFailed, "%s %s: %s: %s%s", run.ID, words(run.Status), e.Code, e.Message, providerText(e.Provider))
	default:
		return exit(ExitRunFailed, "%s %s", run.ID, words(run.Status))
	}
}

// providerText returns the response of a model provider in parentheses, or "" if there is none.
func providerText(p *domain.ProviderError) string {
	if p == nil {
		return ""
	}
	return " " + console.OneLine(fmt.Sprintf("(the provider responded with %d %s)", p.Status, p.Message))
}

// words describes a run's status for use in a sentence.
func words(status domain.RunStatus) string {
	switch status {
	case domain.RunCancelled:
		return "was cancelled"
	case domain.RunTimedOut:
		return "timed out"
	case domain.RunRequiresAction:
		return "requires an action"
	default:
		return string(status)
	}
}

// Complain prints an error without control characters. Before a usage error it prints the usage. It
// prints nothing if err is nil or an interruption without a note.
func Complain(k *kong.Kong, err error) {
	if err == nil {
		return
	}
	if gone, is := errors.AsType[*interruption](err); is {
		if gone.says != "" {
			_, _ = fmt.Fprintln(k.Stderr, console.Safe(gone.says)) // an error is ignored, because there is no other output for it
		}
		return
	}
	wrong, is := errors.AsType[*kong.ParseError](err)
	if is && wrong.Context != nil {
		_ = PrintUsage(kong.HelpOptions{}, wrong.Context) // an error is ignored, because the command's own error is more important
	}

	// If an enum is optional, kong lists "" among its choices. Users cannot type it, so the message
	// omits it.
	text := strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)

	// The usage shows the names of arguments in upper case.
	if found := missingArgument.FindStringSubmatch(text); found != nil {
		text = strings.ToUpper(found[1]) + " is missing"
	}
	if is && strings.HasPrefix(text, "unexpected argument ") {
		text += commandsNote(wrong.Context)
	}
	k.Errorf("%s", console.Safe(text))
}

// commandsNote returns a note for a user who has named an unknown command of a group, such as the
// group runs. The note lists the group's commands. If the user has named a command of the group,
// commandsNote returns "".
func commandsNote(c *kong.Context) string {
	if c == nil {
		return ""
	}
	node := c.Selected()
	if node != nil && len(node.Children) == 0 && !slices.Contains(c.Args, node.Name) {
		node = node.Parent // the group's default command is selected
	}
	if node == nil || node.Type != kong.CommandNode || len(node.Children) == 0 {
		return ""
	}
	var names []string
	for _, child := range node.Children {
		names = append(append(names, child.Name), child.Aliases...)
	}
	return fmt.Sprintf("; the commands of %s are %s", node.FullPath(), strings.Join(names, ", "))
}

// missingArgument matches kong's error for a missing argument.
var missingArgument = regexp.MustCompile(`^expected "<([^>]+)>[^"]*"$`)

// noteIncomplete prints a note if the answer of a run ended early, because the answer itself does
// not show this.
func noteIncomplete(con *console.Console, run *domain.Run) {
	switch {
	case !run.Incomplete():
	case *run.FinishReason == domain.FinishLength:
		con.Notef("The answer is incomplete: the model reached its output limit.")
	default:
		con.Notef("The answer is incomplete: the provider withheld the rest.")
	}
}
