// Package espeak makes speech with espeak-ng, a formant synthesizer: it says over a hundred languages at once and on any machine, and
// sounds like the machine that it is. Each line is said by a process of its own, which gets the text on its input.
package espeak
