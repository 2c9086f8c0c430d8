// Package process runs the programs of speech backends. Each program runs in a process group of its
// own, does not inherit the environment of this process, and has resource limits where the kernel
// supports them. A program ends when the context of its caller ends.
package process
