// Package process runs the programs of speech backends. Each runs in a separate process group
// without this process's environment, is limited by the kernel where possible, and ends with its
// caller.
package process
