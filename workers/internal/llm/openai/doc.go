// Package openai implements the model interface with OpenAI's Chat Completions API, for OpenAI
// itself, vLLM, Ollama, llama.cpp and gateways. openai-go encodes requests and decodes the event
// stream. This package adds:
//
//   - Time limits, a limit on the answer's size, and independence of the environment, from
//     package remote. A finish_reason completes the answer; after it only the usage is awaited.
//   - Complete answers: a stream without a finish_reason is llm.KindTruncated, and its tool calls
//     are never returned.
//   - No retries: those of openai-go are disabled, because the turn loop decides.
//   - Differences between servers: missing usage is estimated, parallel tool calls with equal
//     indexes are distinguished by id, and repeated names are not doubled.
package openai
