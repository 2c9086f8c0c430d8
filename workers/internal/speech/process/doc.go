// Package process runs the programs of speech backends. Each program runs in a separate process
// group, does not inherit this process's environment, and is limited by the kernel where possible.
// It ends when its caller's context ends.
package process
