// Package formats lists the readers that are written in Go. The caller adds the PDF reader, which
// runs external programs.
package formats
