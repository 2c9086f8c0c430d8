// Package leased keeps the leases of the rows that a worker has claimed: runs and documents.
//
//	claim ─► Add ─► heartbeats extend the lease ─┬─ the attempt ends ─► Remove
//	                                             ├─ another worker has the row ─► ErrTaken
//	                                             └─ the lease expires by the local clock ─► ErrLease
//
// An attempt is cancelled with one of these causes, or with a cause of its caller.
package leased
