// Package remote is the common base of models that are called over HTTP. It contains the time
// limits, the limit on the size of answers, the classification of failures, and an HTTP client that
// reads no settings from the environment.
//
// Time limits of a call. If one of them is exceeded, the request is cancelled and the call fails
// with llm.KindTimeout:
//
//	start ─connect 5 s─► connected ─► first chunk ─► chunk ─► … ─► answer complete ─► end
//	└───────first token 30 s──────────┘└─idle 30 s──┘               └─the rest 2 s─┘
//	└──────────────────────────── total 120 s ─────────────────────────────────────┘
//
// Keep-alives are not chunks and do not extend any limit. After the answer is complete, only its
// usage and the end of the stream may follow, within at most two seconds.
package remote
