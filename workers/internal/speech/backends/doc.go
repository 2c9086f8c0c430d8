// Package backends creates the speech backends that the settings name: transcription and synthesis
// by a service (package openaiaudio), or offline (packages pocketsphinx and espeak).
//
// Invalid settings stop the worker. A program that is not installed does not: the worker then
// offers the other half of the voice feature, and calls of the missing backend fail with the
// reason.
package backends
