// Package cli implements the commands of parley that call a running service (chat, trigger, keys,
// runs, agents) and those that describe the program (config, help, completion, version).
//
// A command prints its result to standard output and everything else to standard error. [Code]
// returns the exit status of an error.
package cli
