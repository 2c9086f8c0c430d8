// Package console gives commands access to standard input, output and error, and to the terminal if
// there is one.
//
// Without a terminal, the output is plain text and no progress is shown.
package console
