// Package pcm changes how often sound is sampled, and reads and writes the head of WAV files. Sound is 16 bit, signed,
// little-endian, mono.
//
// The modules that could be had interpolate between samples; what lies above half the new rate then comes back as tones that
// nobody said. Here it is filtered away.
package pcm
