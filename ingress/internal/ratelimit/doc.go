// Package ratelimit keeps the three tiers of request limits.
//
//	demo    per client address   every request counted in PostgreSQL: exact over all
//	                             ingresses and restarts, at most its limit in any 60 s
//	user    per credential       token buckets, whose tokens ingresses lease in chunks
//	system  per organization     from PostgreSQL and hand out in memory
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
// An ingress that leaves leased tokens unused makes the limit stricter for a minute; then they are void.
// Nothing passes while the database is away: what cannot be counted is refused.
package ratelimit
