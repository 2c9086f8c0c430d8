// Package ratelimit enforces the request limits of each tier of callers.
//
//	demo    per client address   every request counted in PostgreSQL: exact over all
//	                             ingresses and restarts, at most its limit in any 60 s
//	user    per credential,      token buckets, whose tokens ingresses lease in chunks
//	        and per user         from PostgreSQL and hand out in memory; a request counts
//	                             under both, and all keys of an organization are one user
//	system  per organization     the same
//	widget  per visitor, per     the same; each request counts under all three, and passes
//	        address, per agent   if all of them allow it
//
// A leased bucket in an ingress goes through these states:
//
//	          lease granted                    last token taken
//	empty ───────────────────► holding tokens ──────────────────► empty
//	  │  ▲                        │        ▲
//	  │  └── tokens too old ──────┘        └── half gone: leases more ahead of need
//	  │ lease refused
//	  ▼
//	refusing, until the bucket has gained tokens again
//
// Accuracy: a chunk is a twentieth of the limit, and at least one token. An ingress leases the next
// chunk when it holds less than half of one, so it holds fewer than 1.5 unused chunks, apart from
// refunds. Therefore:
//
//   - In any T seconds, N ingresses together allow at most limit·(1 + T/60) requests, plus the
//     N·1.5 chunks that they held before (7.5 % of the limit each). A burst after a pause never
//     exceeds the limit.
//   - Tokens that an ingress holds and does not use, or loses in a crash, are missing for the
//     4.5 s in which the bucket gains them again. Tokens expire after a minute, because the
//     bucket is full again by then.
//
// A refusal is remembered until the bucket has gained a token. Retry-After gives this time in
// whole seconds: a client that waits for it succeeds, unless another client with the same
// credential was faster.
//
// Requests that cost nothing, such as replays, show the state that this ingress knows.
//
// While the database is unreachable, requests cannot be counted and are refused. The package has no
// background work: leases run when requests need them. The counts are in the tables of package
// limitdb.
package ratelimit
