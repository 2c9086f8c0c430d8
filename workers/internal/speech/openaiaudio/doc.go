// Package openaiaudio understands and makes speech with OpenAI's audio endpoints, or those of a service that speaks the same protocol:
// audio/transcriptions, which is sent a WAV file, and audio/speech, whose sound is passed on as it comes.
//
// After five faults in a row a service is left alone for ten seconds: who speaks is then told at once, not after a limit of time.
package openaiaudio
