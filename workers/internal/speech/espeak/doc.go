// Package espeak synthesizes speech with espeak-ng, a formant synthesizer. It is fast on any
// machine and supports over a hundred languages, but sounds artificial. Each line is spoken by a
// process of its own, which reads the text from standard input.
package espeak
