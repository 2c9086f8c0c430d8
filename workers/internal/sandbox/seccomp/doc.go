// Package seccomp defines the system calls that a sandbox may make, as a list of allowed calls and
// arguments. All other calls fail with EPERM. Calls through the ABI of another architecture kill
// the process. Filter compiles the list for the kernel.
//
// Arguments are compared in the width that the kernel reads. The kernel ignores the high 32 bits of
// an int, so a filter that compared these bits could be bypassed by setting one of them.
package seccomp
