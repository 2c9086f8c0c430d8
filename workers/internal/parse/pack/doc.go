// Package pack opens the ZIP archives of document formats, and reads the XML in them. It
// decompresses only the parts that are read, and limits their size. It never opens an archive
// inside of an archive.
//
// The readers of Office formats and of EPUB use it, and package parse uses it to detect these
// formats. All input is untrusted: an archive may declare wrong sizes, share compressed bytes
// between entries, or expand to a multiple of its size. Open checks what the directory declares,
// and Read limits what is really decompressed.
//
// Errors are *document.Failure values with messages for the person who uploaded the document.
package pack
