// Package charset finds out in what encoding a text is, and decodes it.
package charset
