// Package openaiapi has the shapes of OpenAI's HTTP API in which Parley's agents are offered to its clients: what
// their requests say, in our words, and our runs in theirs. It knows neither routes nor stores.
//
//	POST /v1/chat/completions ──► ParseCompletion ──┐                ┌──► NewCompletion     ──► 200
//	                                                ├──► a run ──────┤
//	POST /v1/responses ─────────► ParseResponse ────┘                └──► encoders of events ──► a stream
//
// Requests are read leniently where that protocol grows (fields that are not known are passed over) and strictly
// where it would lie: what is asked for and cannot be done is refused, by name. Everything that is wrong with a
// request is reported at once.
package openaiapi
