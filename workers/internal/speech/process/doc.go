// Package process runs the programs that speech is made and understood with: each in a group of its own, with nothing of this
// process's environment, limited by the kernel where that can be had, and gone when its caller is.
package process
