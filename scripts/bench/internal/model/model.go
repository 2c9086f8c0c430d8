package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/scripts/bench/internal/process"
)

// Name is the model of agents that are to ask this one.
const Name = "openai/bench"

const startTimeout = 30 * time.Second

// Model is a running process.
type Model struct {
	process.Group
	base   string
	client *http.Client
}

// Start starts it from a binary that calls Serve on the argument model, with ADDRESS and DELAY in its environment.
func Start(ctx context.Context, command, logsDir string, delay time.Duration) (*Model, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	m := &Model{base: "http://" + address, client: &http.Client{Timeout: startTimeout}}
	started, err := m.Group.Start(ctx, process.Config{
		Name: "model", Path: command, Args: []string{"model"}, LogsDir: logsDir,
		Env: map[string]string{"ADDRESS": address, "DELAY": delay.String()},
	})
	if err == nil {
		err = started.AwaitOK(ctx, m.base+readyPath)
	}
	if err != nil {
		return nil, errors.Join(err, m.Stop())
	}
	return m, nil
}

// Settings are the worker's, so that it asks this model.
func (m *Model) Settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": m.base + "/v1", "OPENAI_API_KEY": "bench"}
}

// Hold keeps back the answers to calls from now on.
func (m *Model) Hold(ctx context.Context) error { return m.ask(ctx, holdPath, nil, nil) }

// Release lets all answers go; once more is no harm.
func (m *Model) Release(ctx context.Context) error { return m.ask(ctx, releasePath, nil, nil) }

// Active is how many answers are being given, those that are held too.
func (m *Model) Active(ctx context.Context) (n int, err error) {
	err = m.ask(ctx, activePath, nil, &n)
	return n, err
}

// Asked fails unless the model was called once for each of the messages.
func (m *Model) Asked(ctx context.Context, messages []string) error {
	var counts []int
	if err := m.ask(ctx, countPath, messages, &counts); err != nil {
		return err
	}
	if len(counts) != len(messages) {
		return fmt.Errorf("%d counts of %d messages", len(counts), len(messages))
	}
	wrong := 0
	var first error
	for i, message := range messages {
		if n := counts[i]; n != 1 {
			wrong++
			if first == nil {
				first = fmt.Errorf("%q made %d model calls, not one", message, n)
			}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d: %w", wrong, len(messages), first)
	}
	return nil
}

// ask posts a body as JSON, and reads what is answered unless into is nil.
func (m *Model) ask(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("telling the model %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+path, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("telling the model %s: %w", path, err)
	}
	res, err := m.client.Do(req)
	if err != nil {
		return errors.Join(fmt.Errorf("telling the model %s: %w", path, err), m.Err())
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("telling the model %s: %s", path, res.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("reading what the model says of %s: %w", path, err)
	}
	return nil
}
