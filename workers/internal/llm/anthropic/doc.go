// Package anthropic is the model interface over Anthropic's Messages API and servers that speak it. Requests,
// decoding and the event stream are anthropic-sdk-go's; this package adds what a service needs around it.
//
//   - Time limits, a cap on the answer's size, and nothing from the environment: package remote's, which draws them.
//     A stop reason completes the answer. A ping is a keep-alive and no chunk.
//
//   - One answer or an error: a stream without a stop reason is llm.KindTruncated, and of a message that was cut,
//     paused or stopped for its length no tool call is handed out.
//
//   - No retries: the SDK's own are off, the turn loop decides.
//
//   - What a model thinks is not part of its answer. It travels as [llm.Message.Thinking], unread, back to the same
//     model, which may refuse the result of a tool without it.
//
//   - What the protocol asks of a prompt: results of tools in one message right behind the calls, ids and names of
//     its own alphabet, no empty texts, a limit for the answer.
package anthropic
