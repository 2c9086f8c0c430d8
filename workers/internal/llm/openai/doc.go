// Package openai is the model interface over any server that speaks OpenAI's Chat
// Completions: OpenAI itself, vLLM, Ollama, llama.cpp, gateways. Requests, decoding and
// the event stream are openai-go's; this package adds what a service needs around it.
//
//   - Time limits, a cap on the answer's size, and nothing from the environment: package
//     remote's, which draws them. A finish_reason completes the answer; only the usage is
//     still waited for then.
//
//   - One answer or an error: a stream without a finish_reason is llm.KindTruncated, and
//     no tool call of it is handed out.
//
//   - No retries: openai-go's own are off, the turn loop decides.
//
//   - Differences between servers: absent usage is estimated, parallel tool calls that
//     share an index are told apart by id, repeated names are not doubled.
package openai
