// Package formats is the list of formats that are read in Go; that of PDF, which other programs read, is added by who has them.
package formats
