// Package openaistub is a server for OpenAI's Chat Completions and Embeddings APIs. It answers by
// rules or a script instead of a model. It serves tests and benchmarks over real HTTP, including
// slow runs and every kind of provider failure. It uses only the standard library. Package
// modelstub documents the rules: echo, directives and faults.
package openaistub
