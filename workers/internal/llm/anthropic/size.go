package anthropic

import "strings"

// size is what a model can read and write, in tokens.
type size struct {
	context  int
	output   int64 // at most; 0 is unknown
	adaptive bool  // thinks as it sees fit unless told otherwise, and may be asked to show it
}

// usualOutput is what an answer may have unless something else is asked for: more cannot be written in the time that
// a call has.
const usualOutput = 32_000

// unknownOutput is the same for models of which nothing is known: the least of those in use.
const unknownOutput = 8_192

// sizeFor goes by the published sizes of model families, the longest prefix first; the turn loop shortens the prompt
// if the server still finds it too long.
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

// maxTokens gives the limit for an answer that may have asked tokens, 0 for as many as is usual: the protocol wants
// one, and refuses more than the model has.
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
