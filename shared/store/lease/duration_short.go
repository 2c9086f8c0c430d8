//go:build shortlease

package lease

import "time"

// Lease is shorter in programs with the build tag shortlease, so that tests with killed workers
// take less time.
const Lease = 5 * time.Second
