// Package pcm resamples audio, and reads and writes WAV headers. Audio is 16 bit, signed,
// little-endian, mono.
//
// Existing modules interpolate between samples, so frequencies above half the new rate return as
// audible artifacts. This package filters them out.
package pcm
