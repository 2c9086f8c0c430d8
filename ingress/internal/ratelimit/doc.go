// Package ratelimit keeps the tiers of request limits.
//
//	demo    per client address   every request counted in PostgreSQL: exact over all
//	                             ingresses and restarts, at most its limit in any 60 s
//	user    per credential,      token buckets, whose tokens ingresses lease in chunks
//	        and per user         from PostgreSQL and hand out in memory; a request counts
//	                             under both, and all keys of an organization are one user
//	system  per organization     the same
//	widget  per visitor, per     the same; each request counts under all three, and passes
//	        address, per agent   when all of them let it
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
// How exact that is: a chunk is a twentieth of the limit, one token at least, and an ingress leases the next one when
// it holds less than half of one. So it never holds 1.5 chunks or more that nobody has used, apart from refunds, and
//
//   - in any T seconds N ingresses together let at most limit·(1 + T/60) requests pass, and N·1.5 chunks (7.5 % of
//     the limit for each) that they held before. At once, from rest, never more than the limit.
//   - what an ingress holds and does not use, or takes with it when it dies, the others lack for as long as the
//     bucket takes to gain it again: 4.5 s. Tokens that are a minute old are void: by then the bucket is full again.
//
// A refusal is remembered here until the bucket has gained a token, and says so in whole seconds: who waits that long
// has waited long enough, unless somebody else with the same credential was faster.
//
// What costs nothing, such as a replay, is answered with a peek at what this ingress knows.
//
// Nothing passes while the database is away: what cannot be counted is refused.
package ratelimit
