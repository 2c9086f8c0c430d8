// Package openai implements the model interface with OpenAI's Chat Completions API, for OpenAI's
// own service, vLLM, Ollama, llama.cpp and gateways. openai-go encodes requests and decodes the
// event stream. This package adds:
//
//   - Time limits, a limit on the size of the answer, and independence from the environment, all
//     from package remote. A finish_reason completes the answer. Only the usage may
//     follow it.
//   - Complete answers: a stream without a finish_reason is an error of llm.KindTruncated, and its
//     tool calls are never returned.
//   - No retries: the retries of openai-go are disabled, because the agent loop decides about them.
//   - Differences between servers: missing usage is estimated. Parallel tool calls with the same
//     index are distinguished by their ids. A repeated name is not appended to itself.
package openai
