// Package sandboxtest is what each sandbox.Backend must pass: programs that try for real what must fail, programs that use
// more than they may, honest programs that must not notice, and all of them at once. Hostile programs are Python and run
// through python.Interpreter, as those of agents do.
//
// A check that cannot fail is worth nothing, so this package's own tests run the attempts without a sandbox, where each must
// succeed (see controls_test.go), and look for processes that are known to live.
package sandboxtest
