// Package breaker keeps calls away from models whose provider fails: each model has a breaker of its own, since one
// may be down or overloaded while its provider's others are well.
//
//	          5 faults in a row                10 s
//	closed ────────────────────────► open ──────────────► half-open ─── one call is let through
//	   ▲                               ▲                     │   │
//	   │                               └──────── fault ──────┘   │
//	   └──────────────── first piece of an answer ───────────────┘
//
// A fault is what only time can cure and the provider is to blame for: no connection, 5xx, a limit of time, an answer
// that broke off or could not be read. What it says of the request, the account or the rate of requests is none: it
// answers. Nor is an answer that was still coming when its time ran out: that a caller may ask for. A caller who gave up
// says nothing at all. Calls that are kept away fail at once with llm.KindUnavailable and the time to come back after.
package breaker
