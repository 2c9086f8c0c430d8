// Package sandboxtest is the test suite of sandbox.Backend. It runs programs whose attempts must be
// refused, programs that exceed their limits, honest programs that must be unaffected, and all of
// these simultaneously. Hostile programs are Python programs that python.Interpreter runs, like the
// programs of agents.
//
// A check that cannot fail proves nothing. So the tests of this package also make the attempts
// without a sandbox, where each attempt must succeed; see controls_test.go. They also search for
// processes that are known to be alive.
package sandboxtest
