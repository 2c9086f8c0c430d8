// Package openaiapi converts between OpenAI's HTTP API and Parley's: it converts requests to
// Parley's types, and renders runs as OpenAI's objects. It contains neither HTTP handlers nor
// database queries.
//
//	POST /v1/chat/completions ──► CompletionRequest ─┐                ┌──► NewCompletion, NewResponse ──► 200
//	                                                 ├──► a run ──────┤
//	POST /v1/responses ─────────► ParseResponse ─────┘                └──► encoders of events ──► a stream
//
// Unknown fields are ignored, because the protocol grows. Known parameters that agents do not
// support are rejected with an error that names them. All errors in a request are reported
// together. Types whose names end with Request or Body are decoded requests. Functions whose names
// begin with New render objects. Functions that validate receive a [Wrong], which collects the
// problems. The package keeps no state between requests. Encoders of streams belong to one
// connection. Package httpapi/openai contains the handlers that use this package. Packages run,
// runbody, voice and realtime use its types for citations, attachments and errors.
package openaiapi
