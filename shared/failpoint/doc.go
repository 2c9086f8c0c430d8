// Package failpoint marks the points in a run's path at which tests can make a process die, freeze
// or wait. Product code marks a point with one call:
//
//	failpoint.Here(failpoint.ClaimAfter)
//
// Without the build tag failpoints, this is an empty function that the compiler removes. With the
// tag, an environment variable assigns actions to points. Just before the process takes an action,
// it writes the action to its standard error. For example:
//
//	PARLEY_FAILPOINTS=claim.after=kill,turn.before=stop@2
//
//	kill         kills the process, like kill -9
//	kill:100ms   the same after a delay, in which the goroutine waits and written data leaves the process
//	stop         freezes the process until it gets SIGCONT
//	hold:PATH    makes the goroutine wait until a file of that path exists
//	delay:100ms  makes the goroutine wait
//	…@3          takes the action when the point is reached for the third time instead of the first
//
// The package imports only the standard library, so that every package can import it.
// scripts/crashpoints has a test for every point.
package failpoint
