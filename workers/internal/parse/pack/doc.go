// Package pack opens the ZIP archives of document formats. It inflates only the parts that are
// read, bounds their size, and never opens an archive inside an archive.
package pack
