// Package schema checks a tool call's arguments against the JSON Schema that the tool gives for them, before anything
// is sent. Schemas come from organizations, imported documents and remote servers, arguments from models: neither is
// trusted. Nothing is ever loaded, from the network or from a file; size, depth, numbers and patterns are bounded when a
// schema is compiled, and the work of a check while it runs, because a small schema can ask for an endless one.
package schema
