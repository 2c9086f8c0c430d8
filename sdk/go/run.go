package parley

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
)

// Completed returns the answer of a completed run, and a *RunFailedError for any other run.
func (r *Run) Completed() (answer string, err error) {
	if r.Status != RunStatusCompleted || r.Message == nil {
		return "", &RunFailedError{Run: r}
	}
	return *r.Message, nil
}

// Parse stores the data of a completed run in the value that target points to. It returns a
// *RunFailedError if the run did not complete or if its answer is text. The service has validated
// the data against the schema of the request or the agent.
func (r *Run) Parse(target any) error {
	if r.Status != RunStatusCompleted || r.Output == nil || r.Output.Data == nil {
		return &RunFailedError{Run: r}
	}

	// Encode the data again, because the target may have any type.
	data, err := json.Marshal(r.Output.Data)
	if err == nil {
		err = json.Unmarshal(data, target)
	}
	if err != nil {
		return fmt.Errorf("decoding the output of run %s: %w", r.ID, err)
	}
	return nil
}

// waitOver reports whether the run has finished or requires an action, so that waiting for it is
// over.
func (r *Run) waitOver() bool { return r.Status != RunStatusQueued && r.Status != RunStatusRunning }

// RunFailedError reports a run that did not complete: it failed, was cancelled, timed out or
// requires an action. It is the error of Completed and Parse.
type RunFailedError struct{ Run *Run }

// Error returns a message with the run's ID, its status, and its error.
func (e *RunFailedError) Error() string {
	says := fmt.Sprintf("run %s is %s", e.Run.ID, e.Run.Status)
	if e.Run.Error != nil {
		says += fmt.Sprintf(": %s (%s)", e.Run.Error.Message, e.Run.Error.Code)
	}
	return says
}

// WaitError reports that the context of a call ended while the call waited for a run. The run
// continues. Runs.Wait(ctx, RunID) waits again. Use errors.As to get the WaitError, which contains
// the id of the run.
type WaitError struct {
	RunID string
	Err   error // cause of the context
}

// Error names the run and the cause.
func (e *WaitError) Error() string {
	return fmt.Sprintf("waiting ended before run %s finished: %v; the run continues", e.RunID, e.Err)
}

// Unwrap returns the cause of the context.
func (e *WaitError) Unwrap() error { return e.Err }

// keyOr returns the given idempotency key, or a new key if the argument is empty. New keys are
// random, so they never collide.
func keyOr(key string) string {
	if key == "" {
		return strings.ToLower(rand.Text())
	}
	return key
}
