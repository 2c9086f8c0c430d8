// Package openai is the model interface over any server that speaks OpenAI's Chat
// Completions: OpenAI itself, vLLM, Ollama, llama.cpp, gateways. Requests, decoding and
// the event stream are openai-go's; this package adds what a service needs around it.
//
//   - Time limits. Each one cancels the request and ends it as llm.KindTimeout:
//
//     start ─connect 5 s─► connected ─► first chunk ─► chunk ─► … ─► finish_reason ─► end
//     └───────first token 30 s──────────┘└─idle 30 s──┘              └─usage 2 s─┘
//     └──────────────────────────── total 120 s ─────────────────────────────────┘
//
//     Keep-alive comments are no chunks and buy no time. After the finish_reason the
//     answer is complete; only the usage is still waited for, and not for long.
//
//   - One answer or an error: a stream without a finish_reason is llm.KindTruncated, and
//     no tool call of it is handed out.
//
//   - No retries (openai-go's own are off; the turn loop decides), no proxy, client
//     settings or headers from the environment, no redirects.
//
//   - Differences between servers: absent usage is estimated, parallel tool calls that
//     share an index are told apart by id, repeated names are not doubled.
package openai
