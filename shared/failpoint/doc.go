// Package failpoint marks the points of a run's path at which a process may die, freeze or be late, so that tests can have
// it do so. Product code names a point with one call:
//
//	failpoint.Here(failpoint.ClaimAfter)
//
// Without the build tag failpoints that is an empty function, of which the compiler leaves nothing. With it, the environment of a
// process says what happens where, and the process says so on its standard error, just before:
//
//	PARLEY_FAILPOINTS=claim.after=kill,turn.before=stop@2
//
//	kill         the process is gone, as with kill -9
//	kill:100ms   the same so much later, the goroutine waiting: what it has written to a connection has left by then
//	stop         the process freezes, until it is sent SIGCONT
//	hold:PATH    the goroutine waits until there is a file of that path
//	delay:100ms  the goroutine waits so long
//	…@3          at the third time that the process comes by, instead of the first
//
// The standard library only; anything may import it. scripts/crashpoints has a test for every point.
package failpoint
