// Package model contains the services that measured agents call. Model and PacedProvider are stubs
// of OpenAI's API. Lookup is an HTTP API that a tool calls. All of them run in the bench's process.
//
//	Model          echoes messages and calls tools; can delay and hold its answers
//	PacedProvider  streams 50 pieces in 1.1 s, as a real model would
package model

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "parley/sdk/go"
	"parley/shared/testkit/openaistub"
)

// Name is the model's name in the configuration of agents that call this provider.
const Name = OpenAI + "bench"

// codeTool is the name of the tool that executes code.
const codeTool = "codeExecution"

// Model is a model provider that echoes messages and calls tools.
type Model struct {
	provider

	delay time.Duration
}

// Start starts a provider that sends each answer after the given delay. The answer repeats the
// user's message. If the agent has codeExecution, the provider first asks it to execute the message
// as a program. If the agent has LookupTool, the provider first calls this tool LookupCalls times,
// one call after another.
func Start(delay time.Duration) *Model {
	m := &Model{provider: provider{gate: newGate()}, delay: delay}
	stub := openaistub.New()
	stub.Respond(m.respond)
	m.server = serve(stub)
	return m
}

// respond waits while answers are held. It returns false if package openaistub must create the
// answer, which is the case if the provider has no delay and the request has no tools.
func (m *Model) respond(r openaistub.Request) (openaistub.Reply, bool) {
	<-m.opened()
	switch results := countResults(r); {
	case slices.Contains(r.Tools, codeTool) && results == 0:
		return call(codeTool, fmt.Sprintf(`{"code":%q}`, r.Prompt()), results), true
	case slices.Contains(r.Tools, LookupTool) && results < LookupCalls:
		return call(LookupTool, fmt.Sprintf(`{"id":"%d"}`, results), results), true
	}
	return openaistub.Reply{Text: "echo: " + r.Prompt(), Delay: m.delay}, m.delay > 0 || len(r.Tools) > 0
}

// call returns a reply that requests the nth call of a run.
func call(tool, arguments string, nth int) openaistub.Reply {
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: fmt.Sprintf("call_%d", nth), Name: tool, Arguments: arguments}}}
}

// countResults counts the tool results after the last user message.
func countResults(r openaistub.Request) (n int) {
	for _, message := range slices.Backward(r.Messages) {
		switch message.Role {
		case "tool":
			n++
		case "user":
			return n
		}
	}
	return n
}

// Name and arguments of the tool that a Model calls. The tool's endpoint is a Lookup.
const (
	LookupTool  = "lookup"
	LookupCalls = 2 // number of calls per run
)

// Lookup is an HTTP API that an agent's tool calls.
type Lookup struct {
	server

	calls atomic.Int64
}

// StartLookup starts the API.
func StartLookup() *Lookup {
	l := &Lookup{}
	l.server = serve(l)
	return l
}

// Calls returns the number of answered calls.
func (l *Lookup) Calls() int64 { return l.calls.Load() }

// Tools returns the tool configuration of an agent that may call the API.
func (l *Lookup) Tools() *sdk.ToolsChange {
	return &sdk.ToolsChange{HTTPRequest: &sdk.ToolsChangeHTTPRequest{Enabled: new(true), Endpoints: []sdk.EndpointChange{{
		Name: LookupTool, Description: new("Looks up an order."), Method: http.MethodPost, URL: "http://" + l.Address() + "/orders/{id}",
		SideEffect: new(sdk.SideEffectIdempotent),
	}}}}
}

// ServeHTTP counts the call and responds with an order.
func (l *Lookup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxRequest)) // an error means that the client has left
	l.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"shipped","carrier":"post"}`)
}

// server is an HTTP server on a loopback port in the bench's process.
type server struct{ http *httptest.Server }

// serve starts a server on a free port.
func serve(handler http.Handler) server { return server{httptest.NewServer(handler)} }

// Address returns the server's address as host:port.
func (s server) Address() string { return s.http.Listener.Addr().String() }

// Stop stops the server.
func (s server) Stop() { s.http.Close() }

// Settings returns the settings for a worker that calls this provider.
func (s server) Settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": s.http.URL + "/v1", "OPENAI_API_KEY": "bench"}
}

// provider is a server whose answers can be held.
type provider struct {
	server
	*gate
}

// Stop releases the held answers and stops the provider.
func (p provider) Stop() {
	p.Release()
	p.server.Stop()
}

// gate lets answers pass while it is open and holds them while it is closed. newGate creates an
// open gate.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // while the gate is open, this channel is closed, so receives from it do not block
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// opened returns a channel that is closed when the gate is opened.
func (g *gate) opened() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Hold closes the gate: later answers wait until Release.
func (g *gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Release opens the gate. It may be called more than once.
func (g *gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
