// Package cli is what the program parley does at a running service: chat, trigger, keys, runs, agents; and what it says of
// itself: its settings, its help, and what a shell completes.
//
// A command prints what was asked for to standard output and everything else to standard error. What it exits with says how
// it went; see [Code].
package cli
