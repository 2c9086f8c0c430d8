// Package openaiapi converts between OpenAI's HTTP API and Parley's: it converts requests to
// Parley's types, and renders runs as OpenAI's objects. It contains neither HTTP handlers nor
// database queries.
//
//	POST /v1/chat/completions ──► ParseCompletion ──┐                ┌──► NewCompletion     ──► 200
//	                                                ├──► a run ──────┤
//	POST /v1/responses ─────────► ParseResponse ────┘                └──► encoders of events ──► a stream
//
// Unknown fields are ignored, because the protocol grows. Known parameters that agents do not
// support are rejected by name. All errors in a request are reported together.
package openaiapi
