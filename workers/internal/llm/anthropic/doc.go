// Package anthropic implements the model interface with Anthropic's Messages API, for Anthropic
// and compatible servers. anthropic-sdk-go encodes requests and decodes the event stream. This
// package adds:
//
//   - Time limits, a limit on the answer's size, and independence of the environment, from
//     package remote. A stop reason completes the answer. A ping is a keep-alive, not a chunk.
//   - Complete answers: a stream without a stop reason is llm.KindTruncated. Tool calls of a
//     truncated or paused message are never returned.
//   - No retries: those of the SDK are disabled, because the turn loop decides.
//   - Thinking: it is not part of the answer. It is stored as [llm.Message.Thinking] and sent
//     back to the same model, which may reject a tool result without it.
//   - The protocol's rules for prompts: tool results in one message directly after the calls,
//     restricted characters in ids and names, no empty texts, a limit for the answer.
package anthropic
