// Package pcm resamples audio, and reads and writes the headers of WAV files. Audio is 16 bit,
// signed, little-endian, mono.
//
// Existing modules only interpolate between samples. If the sample rate is reduced in this way,
// frequencies above half of the new rate become audible artifacts. This package removes these
// frequencies with a filter.
//
// The speech backends use it to convert between the rate of the voice API, speech.Rate, and the
// rates of their programs and services.
package pcm
