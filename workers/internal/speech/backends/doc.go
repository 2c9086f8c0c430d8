// Package backends creates the speech backends that the settings name: transcription and synthesis
// by a service (package openaiaudio), or offline (packages pocketsphinx and espeak).
//
// Invalid settings stop the worker. A program that is not installed does not. The worker then still
// accepts voice sessions, and calls of the missing backend fail with the reason.
package backends
