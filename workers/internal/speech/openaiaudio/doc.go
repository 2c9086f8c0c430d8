// Package openaiaudio transcribes and synthesizes speech with OpenAI's audio endpoints or with
// those of a compatible service. It sends a WAV file to audio/transcriptions, and forwards the
// audio from audio/speech as it arrives.
//
// After five consecutive failures, the service is not called for ten seconds. During this time,
// calls fail immediately instead of after a timeout.
//
// Package backends creates a Transcriber and a Synthesizer for a worker; see package speech for
// their contract. Calls are never repeated here. Errors are of the type *speech.Error, and their
// messages may be shown to callers.
package openaiaudio
