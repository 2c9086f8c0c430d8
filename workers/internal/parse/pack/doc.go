// Package pack opens the ZIP archives of document formats. It inflates only parts that are read,
// bounds their size, and never opens archives inside archives.
package pack
