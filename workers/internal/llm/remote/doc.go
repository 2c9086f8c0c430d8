// Package remote holds what the models behind HTTP share, whatever they speak: time limits, a client that takes
// nothing from its environment, a cap on what is read, and how a call that brought no answer is classified.
//
// The limits of a call; each one cancels the request and ends it as llm.KindTimeout:
//
//	start ─connect 5 s─► connected ─► first chunk ─► chunk ─► … ─► answer complete ─► end
//	└───────first token 30 s──────────┘└─idle 30 s──┘               └─the rest 2 s─┘
//	└──────────────────────────── total 120 s ─────────────────────────────────────┘
//
// Keep-alives are no chunks and buy no time. Once the answer is complete, only what follows it (the usage, the
// stream's end) is waited for, and not for long.
package remote
