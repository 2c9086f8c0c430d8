// Package pocketsphinx transcribes English with PocketSphinx and its model of American English. It
// works offline. A transcription takes about half as long as the speech, and is much less accurate
// than a transcription by a service.
//
// Each utterance is processed by a process of its own. A process needs more than half a second to
// load the model, so the next process is started in advance. Audio is passed in memory and text
// through a pipe, so no speech is written to disk.
package pocketsphinx
