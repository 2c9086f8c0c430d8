// Package schema validates the arguments of a tool call against the tool's JSON Schema before
// anything is sent. It also validates the answer of a run against the schema that its agent or
// caller chose. Schemas come from organizations, imported documents and remote servers, and values
// from models; both are untrusted. Nothing is loaded from the network or from files.
//
// Size, depth, numbers and patterns are limited when a schema is compiled. The work of a check is
// limited while it runs, because a small schema can require endless work.
package schema
