package model

import (
	"io"
	"net/http"
	"sync/atomic"
)

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
func (l *Lookup) Tools() map[string]any {
	return map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": []any{map[string]any{
		"name": LookupTool, "description": "Looks up an order.", "method": "POST", "url": "http://" + l.Address() + "/orders/{id}",
		"sideEffect": "idempotent",
		"inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"id": map[string]string{"type": "string"}}, "required": []string{"id"},
		},
	}}}}
}

// ServeHTTP counts the call and responds with an order.
func (l *Lookup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxRequest)) // an error means that the client has left
	l.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"shipped","carrier":"post"}`)
}
