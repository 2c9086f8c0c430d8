// Package pocketsphinx transcribes English with PocketSphinx and its model of American English. It
// works offline in about half of the duration of the speech, and is much less accurate than
// services. Each utterance is processed by a separate process. A process takes more than half a
// second to load the model, so a spare process is started when one has been used.
//
// Audio is passed in memory and text through a pipe, so nothing of the speech is written to disk.
package pocketsphinx
