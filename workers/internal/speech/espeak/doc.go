// Package espeak synthesizes speech with espeak-ng, a formant synthesizer. It is fast on any
// machine and supports over a hundred languages, but sounds artificial. Each line is spoken by a
// process of its own, which reads the text from standard input.
//
// Package backends selects the synthesizer of a worker; see [speech.Synthesizer] for the contract.
// The processes have limits on time, memory, disk space and output. Their number is limited, and
// lines that wait for a process are shared fairly among organizations; see package process. Text
// and audio pass through pipes.
package espeak
