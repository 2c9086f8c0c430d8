// Package picture decodes an image and encodes it again: upright, without metadata, and at most
// MaxSide pixels on each side. Decoders of untrusted images run only in the sandboxed reader
// process.
//
// The reader process calls Convert for images that are attached to messages. Models receive only
// the result. Metadata, such as the place where a photo was taken, is never sent to a provider.
package picture
