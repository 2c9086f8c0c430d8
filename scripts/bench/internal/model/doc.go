// Package model contains the services that measured agents call. Model and PacedProvider are stubs
// of OpenAI's API. Lookup is an HTTP API that a tool calls. All of them run in the bench's process.
//
//	Model          echoes messages and calls tools; can delay and hold its answers
//	PacedProvider  streams 50 pieces in 1.1 s, as a real model would
package model
