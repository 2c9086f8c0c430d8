// Package signedtest contains helpers for the tests of servers of signed requests: a signer, signed
// requests, and a bus that passes requests directly to a server.
package signedtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/bus"
	"parley/shared/secrets"
	"parley/shared/testkit/running"
)

// Signer returns the signer of all tests.
func Signer(t *testing.T) *secrets.Signer {
	t.Helper()
	s, err := secrets.NewSigner(strings.Repeat("6b", 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Message returns a request that Signer has signed.
func Message(t *testing.T, claims any, body string) bus.ToolMessage {
	t.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return bus.ToolMessage{Capability: Signer(t).Sign(raw, []byte(body)), Body: []byte(body)}
}

// Bus delivers no requests. A test calls the functions of its server: Owner, which accepts or
// refuses a request, and Handle.
type Bus struct {
	Kind   string
	Owner  func(bus.ToolMessage) (string, bool)
	Handle func(context.Context, bus.ToolMessage) ([]byte, bool)

	ready chan struct{}
}

// NewBus returns a Bus for one server.
func NewBus() *Bus { return &Bus{ready: make(chan struct{})} }

// ServeTool stores the functions of the server.
func (b *Bus) ServeTool(
	kind string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
) (func(context.Context), error) {
	b.Kind, b.Owner, b.Handle = kind, cfg.Owner, handle
	close(b.ready)
	return func(context.Context) {}, nil
}

// Start runs a server until the test ends. It returns when the server has called ServeTool.
func (b *Bus) Start(t *testing.T, run func(context.Context) error) {
	t.Helper()
	running.Start(t, run)
	<-b.ready
}
