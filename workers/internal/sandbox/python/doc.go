// Package python runs Python programs, each in its own sandbox. A few sandboxes are kept ready,
// with a started interpreter that waits for its only program. The tool codeExecution uses it; see
// package codeexec.
//
//	Run ─► pool: ready sandbox ─┬─► exchange: limits, files, code ─► runner (parley_runner.py) ─► program
//	        none ready: start one ┘                                       │
//	Outcome ◄─ resultReader ◄─ frames: output, end, files ◄───────────────┘
//
// In the sandbox, the runner applies the limits, runs the program, and sends its output and files
// as frames. The program may take over the runner, so this package trusts no frame. It measures the
// usage from outside, kills the sandbox at a limit, and enforces all sizes again.
//
// A sandbox is never used for a second program. The files of the package are:
//
//   - interpreter.go, pool.go and probe.go: the life of an Interpreter and of the ready
//     sandboxes
//   - exchange.go: one program in one sandbox
//   - frames.go and results.go: the protocol with the runner
package python
