package waiting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"parley/shared/testkit/openaistub"
)

// modelName is the agent's model: the one that is served here.
const modelName = "openai/slow"

const headerTimeout = 5 * time.Second

// model speaks OpenAI's protocol on loopback and repeats messages, at once or when it is let.
type model struct {
	stub   *openaistub.Server
	server *http.Server
	url    string
	ended  chan error

	mu   sync.Mutex
	held chan struct{} // closed when answers may go out
}

func startModel(ctx context.Context) (*model, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for model calls: %w", err)
	}
	m := &model{
		stub: openaistub.New(), url: "http://" + listener.Addr().String() + "/v1",
		ended: make(chan error, 1), held: make(chan struct{}),
	}
	close(m.held)
	m.stub.Respond(m.respond)
	m.server = &http.Server{Handler: m.stub, ReadHeaderTimeout: headerTimeout}
	go func() { m.ended <- m.server.Serve(listener) }()
	return m, nil
}

// settings are the worker's, so that it asks this model.
func (m *model) settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": m.url, "OPENAI_API_KEY": "bench"}
}

func (m *model) respond(openaistub.Request) (openaistub.Reply, bool) {
	m.mu.Lock()
	held := m.held
	m.mu.Unlock()
	<-held
	return openaistub.Reply{}, false
}

// hold keeps back the answers to calls from now on.
func (m *model) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
}

// release lets all answers go.
func (m *model) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.held:
	default:
		close(m.held)
	}
}

func (m *model) stop() error {
	m.release()
	err := m.server.Close()
	if ended := <-m.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving model calls: %w", ended))
	}
	return err
}

// asked fails unless the model was called once for each of the messages.
func (m *model) asked(messages []string) error {
	wrong := 0
	var first error
	for _, message := range messages {
		if n := m.stub.Count(message); n != 1 {
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
