//go:build !shortlease

package lease

import "time"

// Lease is the duration for which a claim or heartbeat reserves a run or a document for its worker.
const Lease = 30 * time.Second
