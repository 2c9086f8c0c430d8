// Package cli implements the commands of parley that call a running service (chat, trigger, keys,
// runs, agents) and those that describe the program (config, help, completion, version).
//
// A command prints its result to standard output and everything else to standard error. [Code]
// returns the exit status of an error.
//
// Each command is a struct whose fields are its options; the parser in cmd/parley fills them in.
// Commands that call a service embed [Service], which selects the service and its key. They use the
// Go SDK, which retries requests and resumes streams. Optional methods add sections to the manual
// page: Help, Examples, Usage and Statuses.
//
// With --json, a command prints the service's JSON unchanged. Otherwise, it prints text from the
// service without control characters; see package console.
package cli
