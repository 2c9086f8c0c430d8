// Package console is where commands meet people: what they read and print, and whether a terminal is at the other end.
//
// Without a terminal everything that is printed is plain, and nothing is printed that is there only while something lasts.
package console
