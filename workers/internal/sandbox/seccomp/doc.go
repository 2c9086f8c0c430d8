// Package seccomp says which system calls a sandbox may make: a list of what is allowed, with the arguments that are. All else
// fails with EPERM, and calls of another architecture's ABI end the process. Filter renders the list for the kernel.
//
// Arguments are compared in the width that the kernel reads them in: an int's high 32 bits are not looked at by the kernel, so
// a filter that looks at them can be passed by setting one of them.
package seccomp
