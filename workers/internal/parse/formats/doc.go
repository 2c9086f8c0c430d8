// Package formats lists the document readers that are written in Go. The caller adds the reader for
// PDF, which runs external programs.
package formats
