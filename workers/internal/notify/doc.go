// Package notify sends notifications to the endpoints of organizations. It signs the requests
// according to the Standard Webhooks specification.
//
//	recorded ─► claimed ─► sent ─┬─ 2xx ─► delivered
//	              ▲              ├─ else ─► pending, until its next attempt ─┐
//	              │              └─ at the last attempt ─► failed            │
//	              └──────────────────────────────────────────────────────────┘
//
// A database trigger records a notification in the transaction of its event; see notify_*.sql in
// migrations/functions. A crash therefore cannot lose a notification. A worker may die after it has
// sent a notification and before it has recorded the result. Another attempt then sends the same id
// and payload. Each notification is therefore delivered at least once, and receivers detect
// duplicates by webhook-id.
//
// A slow or unreachable endpoint does not delay others. Each endpoint has at most a few
// notifications in flight, and only one after a failure. An endpoint is disabled if it fails for a
// day or responds with 410 Gone.
package notify
