// Package pocketsphinx transcribes English with PocketSphinx and its model of American English. It
// works offline. Transcribing takes about half as long as the speech lasts, and is much less
// accurate than with services.
//
// Each utterance is processed by a separate process. A process takes more than half a second to
// load the model, so the next process is started in advance. Audio is passed in memory and text
// through a pipe, so no speech is written to disk.
package pocketsphinx
