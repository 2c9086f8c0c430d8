// Package notify sends notifications to the endpoints of organizations. Requests are signed
// according to Standard Webhooks.
//
//	recorded ─► claimed ─► sent ─┬─ 2xx ─► delivered
//	              ▲              ├─ else ─► pending, until its next attempt ─┐
//	              │              └─ at the last attempt ─► failed            │
//	              └──────────────────────────────────────────────────────────┘
//
// Triggers record a notification in the transaction of the event: see notify_*.sql in
// migrations/functions. As a result, no notification is lost in a crash. A worker that dies between
// sending and recording the result causes another attempt with the same id and payload. Delivery is
// at least once; receivers detect duplicates by webhook-id.
//
// A slow or unreachable endpoint does not delay others. At most a few notifications per endpoint
// are in flight, and only one after a failure. An endpoint is disabled if it fails for a day or
// responds with 410 Gone.
package notify
