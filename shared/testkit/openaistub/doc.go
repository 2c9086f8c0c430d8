// Package openaistub is a server for OpenAI's Chat Completions and Embeddings that answers by
// rules or a script instead of a model: for tests and benchmarks over real HTTP, including slow
// runs and every kind of provider failure. It uses only the standard library. Package modelstub
// has the rules: echo, directives, faults.
package openaistub
