// Package pack opens the ZIP archives of document formats. It decompresses only the parts that are
// read, and limits their size. It never opens an archive inside of an archive.
package pack
