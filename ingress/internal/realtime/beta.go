package realtime

// moved maps the path of a field in the beta protocol to its path in the current protocol. The
// paths are relative to the object that contains the field.
type moved struct{ from, to string }

// These lists contain the fields that exist only in the beta protocol. An event with such a field
// is rejected. If the field were ignored, the client would get a different session than it
// requested.
var (
	betaSession = []moved{
		{"modalities", "output_modalities"},
		{"input_audio_format", "audio.input.format"},
		{"input_audio_transcription", "audio.input.transcription"},
		{"input_audio_noise_reduction", "audio.input.noise_reduction"},
		{"turn_detection", "audio.input.turn_detection"},
		{"output_audio_format", "audio.output.format"},
		{"voice", "audio.output.voice"},
		{"speed", "audio.output.speed"},
		{"max_response_output_tokens", "max_output_tokens"},
	}
	betaResponse = []moved{
		{"modalities", "output_modalities"},
		{"output_audio_format", "audio.output.format"},
		{"voice", "audio.output.voice"},
		{"max_response_output_tokens", "max_output_tokens"},
	}
)

// refuseMoved rejects fields of the beta protocol, and names the corresponding current fields. It
// accepts null, except for turn detection. For turn detection, null has a meaning in both
// protocols, so the client must use the current field.
func refuseMoved(o object, fields []moved) {
	for _, f := range fields {
		if o.has(f.from) || f.from == "turn_detection" && o.null(f.from) {
			o.wrong(f.from, codeUnsupported, "is a field of the Realtime API's beta: use %s", o.at(f.to))
		}
	}
}

// An event that exists only in the beta protocol, and the error message for it.
const (
	betaUpdate = "transcription_session.update"
	betaGone   = betaUpdate + " is an event of the Realtime API's beta; configure sessions with session.update " +
		"(transcription-only sessions are not supported)"
)
