// Package openaistub is a server for OpenAI's Chat Completions and Embeddings. It answers by rules
// or a script and not with a model. It serves tests and benchmarks over real HTTP, including slow
// runs and every kind of provider failure. It uses only the standard library. Package modelstub has
// the rules: echo, directives, faults.
package openaistub
