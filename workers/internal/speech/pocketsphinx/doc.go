// Package pocketsphinx understands English with PocketSphinx and its model of American English: offline, in about half of the time that was
// spoken, and far worse than services do. Each utterance is understood by a process of its own; because a process takes over half a
// second to load the model, the next one is started when one has been used, and waits.
//
// Sound goes through memory and words through a pipe: nothing of what was said is written to a disk.
package pocketsphinx
