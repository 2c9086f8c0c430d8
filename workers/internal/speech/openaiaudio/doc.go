// Package openaiaudio transcribes and synthesizes speech with OpenAI's audio endpoints, or those of
// a compatible service: audio/transcriptions receives a WAV file, and the audio of audio/speech is
// passed on as it arrives.
//
// After five consecutive failures the service is not called for ten seconds, so that calls fail
// immediately instead of after a timeout.
package openaiaudio
