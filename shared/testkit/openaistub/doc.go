// Package openaistub is a server that speaks OpenAI's Chat Completions and Embeddings on the wire and answers by rule or script
// instead of by model: for tests and benches over real HTTP, slow runs and every way in which a provider fails.
// Standard library only. Package modelstub has the rules: echo, directives, faults.
package openaistub
