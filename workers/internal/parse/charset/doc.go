// Package charset detects the encoding of a text and decodes it. The readers of text formats, HTML
// and Markdown use it, and package parse uses it to distinguish text from binary data.
//
// Documents often declare no encoding or a wrong one. Decode therefore examines the content first:
// a byte order mark or valid UTF-8 determines the encoding. Otherwise it uses the declared encoding
// and, last, statistics of the bytes. All functions are safe for concurrent use and never fail: a
// byte that cannot be decoded becomes U+FFFD.
package charset
