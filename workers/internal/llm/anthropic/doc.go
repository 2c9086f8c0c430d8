// Package anthropic implements the model interface with Anthropic's Messages API, for Anthropic and
// compatible servers. anthropic-sdk-go encodes requests and decodes the event stream. This package
// adds:
//
//   - Time limits, a limit on the size of the answer, and independence from the environment, all
//     from package remote. A stop reason completes the answer. A ping is a keep-alive, not a chunk.
//   - Complete answers: a stream without a stop reason is an error of llm.KindTruncated. Tool calls
//     of a truncated or paused message are never returned.
//   - No retries: the SDK's retries are disabled, because the agent loop decides about retries.
//   - Thinking: it is not part of the answer. It is stored as [llm.Message.Thinking] and sent back
//     to the same model, which may reject a tool result without it.
//   - The protocol's rules for prompts. Tool results follow the calls directly, in one message. Ids
//     and names contain only permitted characters. Texts are not empty. Each call limits the
//     length of the answer.
package anthropic
