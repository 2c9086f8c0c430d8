// Package openaiapi converts between OpenAI's HTTP API and Parley's: it converts requests to
// Parley's terms, and renders runs in the form of OpenAI's API. It uses neither routes nor stores.
//
//	POST /v1/chat/completions ──► ParseCompletion ──┐                ┌──► NewCompletion     ──► 200
//	                                                ├──► a run ──────┤
//	POST /v1/responses ─────────► ParseResponse ────┘                └──► encoders of events ──► a stream
//
// Unknown fields are ignored, because the protocol grows. Known parameters that agents do not
// support are rejected by name. All errors in a request are reported together.
package openaiapi
