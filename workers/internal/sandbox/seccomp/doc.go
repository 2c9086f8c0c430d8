// Package seccomp defines the system calls that a sandbox may make, as a list of allowed calls and
// arguments. All other calls fail with EPERM. Calls of another architecture's ABI kill the process.
// Filter compiles the list for the kernel.
//
// Arguments are compared in the width that the kernel reads. The kernel ignores the high 32 bits of
// an int, so a filter that compared them could be bypassed by setting one of them.
package seccomp
