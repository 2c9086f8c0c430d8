// Package charset detects the encoding of a text and decodes it.
package charset
