// Package notify sends notifications: what the database has noted for an organization's endpoints, signed as Standard Webhooks.
//
//	noted ─► claimed ─► sent ─┬─ 2xx ─► delivered
//	           ▲              ├─ else ─► pending, until its next attempt ─┐
//	           │              └─ at the last attempt ─► failed            │
//	           └──────────────────────────────────────────────────────────┘
//
// What happens is noted where it happens, in the same transaction, by triggers: see notify_*.sql in migrations/functions. So nothing
// is lost, whoever dies. A worker that dies between sending and writing that down sends again, under the same id and with the same
// payload: every event arrives at least once, and a receiver knows one that comes again by its webhook-id.
//
// An endpoint that is slow or away delays no other: few notifications of one are under way at a time, and one of an endpoint that
// failed. An endpoint that fails for a day is disabled, and so is one that answers 410 Gone.
package notify
