// Package leased extends the leases of rows that a worker has claimed, and cancels the attempts
// whose leases are lost. The rows are runs and documents.
//
//	claim ─► Add ─► heartbeats extend the lease ─┬─ the attempt ends ─► Remove
//	                                             ├─ another worker has the row ─► ErrTaken
//	                                             └─ the lease expires by the local clock ─► ErrLease
//
// The cause of an attempt's cancellation is ErrTaken, ErrLease, or an error that the caller passes.
package leased
