// Package seccomp defines the system calls that a sandbox may make, as a list of allowed calls and
// arguments. All other calls fail with EPERM. Calls through the ABI of another architecture kill
// the process. Filter compiles the list for the kernel.
//
// The kernel ignores the high 32 bits of an argument of type int. So the filter ignores them, too.
// Otherwise a program could bypass the filter by setting one of these bits.
//
// Package bubblewrap passes the compiled filter to the kernel, and package gvisor converts the
// rules to OCI format. To allow a further call, add its name to a list in rules.go, or to argRules
// if only some arguments are harmless. The number of the call must be in the tables of numbers.
package seccomp
