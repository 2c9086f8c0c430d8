// Package voice measures conversations at /v1/realtime. Who hears, thinks and speaks are stubs of the bench's own, which answer after
// a fixed time each, so that what is left is Parley's:
//
//	turns          from the end of the speech to the first sound of the answer, without the stubs' times
//	interruptions  from the word that speech was heard to the last sound of the answer that it ends
//	sessions       many conversations at the pace of speech: whether each player always has something to play, and what memory does
package voice
