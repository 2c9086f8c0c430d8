// Package process runs the programs of speech backends. Each program runs in a process group of its
// own and does not inherit the environment of this process. Each program has resource limits where
// the kernel supports them. A program ends when the context of its caller ends.
//
// The package has two parts. Process starts a program and passes its input and output. Slots limits
// how many programs run at the same time, and lets organizations take turns. Packages espeak and
// pocketsphinx use both. Programs receive untrusted text and audio, but their code is trusted, so
// they run outside of the sandbox.
package process
