package anthropic

import "strings"

// size contains the sizes of a model's context and output in tokens, and its way of thinking.
type size struct {
	context  int
	output   int64 // maximum output in tokens; 0 if unknown
	adaptive bool  // the model has adaptive thinking: it decides when to think, and can stream its thoughts
}

// usualOutput is the default limit of an answer in output tokens, for models that allow longer
// answers. Longer answers would exceed the time limit of a call.
const usualOutput = 32_000

// unknownOutput is the default limit of an answer for unknown models. All models in the table of
// sizeFor, except the oldest, have at least this output limit.
const unknownOutput = 8_192

// sizeFor returns the published size of a model. It uses the first prefix in the table that matches
// the model's name. If the size in the table is too large and the provider rejects a prompt, the
// agent loop shortens the prompt.
func sizeFor(name string) size {
	sizes := []struct {
		prefix string
		size
	}{
		{"claude-3-5", size{context: 200_000, output: 8_192}},
		{"claude-3-7", size{context: 200_000, output: 64_000}},
		{"claude-3-", size{context: 200_000, output: 4_096}},
		{"claude-opus-4-0", size{context: 200_000, output: 32_000}},
		{"claude-opus-4-1", size{context: 200_000, output: 32_000}},
		{"claude-opus-4-2025", size{context: 200_000, output: 32_000}},
		{"claude-opus-5", size{context: 1_000_000, output: 128_000, adaptive: true}},
		{"claude-sonnet-5", size{context: 1_000_000, output: 128_000, adaptive: true}},
		{"claude-haiku-5", size{context: 1_000_000, output: 128_000, adaptive: true}},
		{"claude-fable-5", size{context: 1_000_000, output: 128_000, adaptive: true}},
		{"claude-mythos-5", size{context: 1_000_000, output: 128_000, adaptive: true}},
		{"claude-", size{context: 200_000, output: 64_000}},
	}

	for _, s := range sizes {
		if strings.HasPrefix(name, s.prefix) {
			return s.size
		}
	}
	return size{context: 32_000}
}

// maxTokens returns the output limit to send. asked is the requested limit, or 0 for the default.
// The protocol requires a limit, and rejects one above the model's maximum.
func (s size) maxTokens(asked int64) int64 {
	switch {
	case asked > 0 && s.output > 0:
		return min(asked, s.output)
	case asked > 0:
		return asked
	case s.output > 0:
		return min(usualOutput, s.output)
	default:
		return unknownOutput
	}
}
