// Package model has the services that measured agents call: Model and PacedProvider, which are
// stubs of OpenAI's API, and Lookup, the HTTP API of a tool. They run in the bench's process.
//
//	Model          echoes messages and calls tools; can delay and hold its answers, and counts messages
//	PacedProvider  streams 50 pieces in 1.1 s, as a real model would
package model
