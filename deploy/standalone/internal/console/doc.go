// Package console gives commands access to standard input, output and error, and to the terminal if
// there is one.
//
// Without a terminal, the output is plain text and no progress is shown. Results go to standard
// output. Everything for people goes to standard error, so that the output of a command can be
// piped.
//
// Text from the service is untrusted. The methods that print remove characters with which such text
// could control the terminal.
package console
