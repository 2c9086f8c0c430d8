// Package remote is the common base of models behind HTTP: time limits, an HTTP client without
// settings from the environment, a limit on the size of answers, and the classification of
// failures.
//
// Time limits of a call; each cancels the request and ends it with llm.KindTimeout:
//
//	start ─connect 5 s─► connected ─► first chunk ─► chunk ─► … ─► answer complete ─► end
//	└───────first token 30 s──────────┘└─idle 30 s──┘               └─the rest 2 s─┘
//	└──────────────────────────── total 120 s ─────────────────────────────────────┘
//
// Keep-alives are not chunks and do not extend a limit. After the answer is complete, only the
// usage and the end of the stream are awaited, for at most two seconds.
package remote
