// Package breaker contains circuit breakers for models. Each model has its own, because one model
// of a provider may fail while the others work.
//
//	          5 faults in a row                10 s
//	closed ────────────────────────► open ──────────────► half-open ─── one call is let through
//	   ▲                               ▲                     │   │
//	   │                               └──────── fault ──────┘   │
//	   └──────────────── first piece of an answer ───────────────┘
//
// A fault is a transient failure of the provider: no connection, a 5xx status, a time limit, or
// an answer that broke off or was unreadable. These are not faults:
//
//   - errors about the request, the account or the rate of requests, because the provider
//     answers,
//   - an answer that was still arriving when its time ran out, because the prompt may ask for a
//     long one,
//   - a call that the caller canceled.
//
// An open breaker fails calls immediately with the delay before a retry, and with
// llm.KindUnavailable, or llm.KindTruncated if the newest fault was an answer that broke off.
package breaker
