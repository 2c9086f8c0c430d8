package model

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"parley/shared/testkit/openaistub"
)

// Name is the model of agents that call this provider.
const Name = "openai/bench"

const (
	codeTool      = "codeExecution"
	headerTimeout = 5 * time.Second
)

// Model is a running provider.
type Model struct {
	stub   *openaistub.Server
	delay  time.Duration
	server *http.Server
	url    string
	ended  chan error

	mu   sync.Mutex
	held chan struct{} // closed when answers are released
}

// Start starts a provider that sends each answer after the given delay. It echoes messages; an
// agent with codeExecution first runs its message as a program.
func Start(ctx context.Context, delay time.Duration) (*Model, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}

	m := &Model{
		stub: openaistub.New(), delay: delay, url: "http://" + listener.Addr().String() + "/v1",
		ended: make(chan error, 1), held: make(chan struct{}),
	}

	close(m.held)
	m.stub.Respond(m.respond)
	m.server = &http.Server{Handler: m.stub, ReadHeaderTimeout: headerTimeout}
	go func() { m.ended <- m.server.Serve(listener) }()
	return m, nil
}

// Stop stops the provider.
func (m *Model) Stop() error {
	m.Release()
	err := m.server.Close()
	if ended := <-m.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving the model: %w", ended))
	}
	return err
}

// Settings are the settings of a worker that calls this provider.
func (m *Model) Settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": m.url, "OPENAI_API_KEY": "bench"}
}

// respond waits until answers are released. Without a delay and tools, it lets the stub create the
// answer.
func (m *Model) respond(r openaistub.Request) (openaistub.Reply, bool) {
	m.mu.Lock()
	held := m.held
	m.mu.Unlock()
	<-held
	if slices.Contains(r.Tools, codeTool) && r.Result() == "" {
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{
			{ID: "call_1", Name: codeTool, Arguments: fmt.Sprintf(`{"code":%q}`, r.Prompt())},
		}}, true
	}
	return openaistub.Reply{Text: "echo: " + r.Prompt(), Delay: m.delay}, m.delay > 0
}

// Hold holds back the answers to calls from now on.
func (m *Model) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
}

// Release lets all answers go. It may be called more than once.
func (m *Model) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.held:
	default:
		close(m.held)
	}
}

// Active returns the number of answers in progress, including held ones.
func (m *Model) Active() int { return m.stub.Active() }

// Asked returns an error unless the model was called once for each of the messages.
func (m *Model) Asked(messages []string) error {
	for _, message := range messages {
		if n := m.stub.Count(message); n != 1 {
			return fmt.Errorf("%q made %d model calls, not one", message, n)
		}
	}
	return nil
}
