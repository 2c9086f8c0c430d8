// Package speech defines speech backends for voice workers: a Transcriber converts an utterance to
// text, and a Synthesizer converts text to audio. Subpackages implement them, and package
// speechtest verifies that they keep the contract.
//
// Audio is 24 kHz, 16 bit, signed, little-endian, mono everywhere except within backends. When the
// context of a call ends, the call ends immediately and leaves neither a process nor a file.
package speech
