// Package charset detects the encoding of a text and decodes it. The readers of text formats, HTML
// and Markdown use it, and package parse uses it to distinguish text from binary data.
//
// Documents often declare no encoding or a wrong one. Decode therefore believes the content first:
// a byte order mark, or bytes that are valid UTF-8. A declared encoding is next, and statistics of
// the bytes are last. All functions are safe for concurrent use and never fail: a byte that cannot
// be decoded becomes U+FFFD.
package charset
