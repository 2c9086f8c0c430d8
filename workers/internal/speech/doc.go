// Package speech is what voice workers ask of speech backends: a Transcriber makes text of an utterance, a Synthesizer
// makes sound of a text. Backends are packages beside it; speechtest checks that all of them keep what is said here.
//
// Sound is 24 kHz, 16 bit, signed, little-endian, mono everywhere but inside backends. A call ends as soon as its
// context does, and leaves neither process nor file behind.
package speech
