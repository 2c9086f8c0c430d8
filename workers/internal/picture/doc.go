// Package picture decodes an image and encodes it again: upright, without metadata, and at most
// MaxSide pixels on each side. Decoders of untrusted images run only in the sandboxed reader process.
package picture
