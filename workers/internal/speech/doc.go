// Package speech defines speech backends for voice workers: a Transcriber converts an utterance to
// text, a Synthesizer converts text to audio. Subpackages implement them, and speechtest verifies
// the contract.
//
// Audio is 24 kHz, 16 bit, signed, little-endian, mono everywhere except within backends. A call
// ends as soon as its context does, and leaves neither process nor file.
package speech
