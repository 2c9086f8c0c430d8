// Package breaker contains circuit breakers for models. Each model has its own, because one model
// of a provider may fail while the others work.
//
//	          5 faults in a row                10 s
//	closed ────────────────────────► open ──────────────► half-open ─── one call is let through
//	   ▲                               ▲                     │   │
//	   │                               └──────── fault ──────┘   │
//	   └──────────────── first piece of an answer ───────────────┘
//
// A fault is a transient failure of the provider: no connection, a 5xx status, an exceeded time
// limit, or an answer that was truncated or unreadable. These failures are not faults:
//
//   - Errors about the request, the account or the rate of requests. They show that the provider
//     works.
//   - An answer that was still arriving when its time limit was exceeded. The prompt may have asked
//     for a long answer.
//   - A call that the caller cancelled.
//
// An open breaker rejects calls immediately, except those of organizations that caused no fault:
// requests of one organization can exceed the time limits of a provider that works. The error
// contains the delay before a retry. Its kind is llm.KindTruncated if the last fault was a truncated
// answer, and otherwise llm.KindUnavailable.
package breaker
