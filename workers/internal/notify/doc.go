// Package notify sends notifications to endpoints of organizations. Requests are signed as
// Standard Webhooks.
//
//	recorded ─► claimed ─► sent ─┬─ 2xx ─► delivered
//	              ▲              ├─ else ─► pending, until its next attempt ─┐
//	              │              └─ at the last attempt ─► failed            │
//	              └──────────────────────────────────────────────────────────┘
//
// Triggers record a notification in the transaction of the event: see notify_*.sql in
// migrations/functions. So no notification is lost in a crash. A worker that dies between sending
// and recording the result causes another attempt with the same id and payload. Delivery is at
// least once; receivers detect duplicates by webhook-id.
//
// A slow or unreachable endpoint delays no other. At most a few notifications of an endpoint are
// in flight, and only one after a failure. An endpoint that fails for a day is disabled, and so
// is one that answers 410 Gone.
package notify
