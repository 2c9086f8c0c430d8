package openaiapi

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// These constants are OpenAI's limits for metadata. Responses repeat the metadata unchanged.
const (
	metadataPairs = 16
	metadataName  = 64 // characters
	metadataValue = 512

	sessionName = "session_id"     // the entry of the metadata with the session's id
	sourcesName = "append_sources" // the entry that says whether a list of sources and files follows the text
)

// checkMetadata validates a request's metadata. The errors are in the order of the names, so that
// equal requests have equal errors.
func checkMetadata(metadata map[string]string, wrong Wrong) {
	if len(metadata) > metadataPairs {
		wrong("metadata", codeTooLong, "must have at most %d pairs, not %d", metadataPairs, len(metadata))
		return // one error for each request is enough
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if n := utf8.RuneCountInString(name); n > metadataName {
			wrong("metadata", codeTooLong, "a name must have at most %d characters, not %d", metadataName, n)
		} else if n := utf8.RuneCountInString(metadata[name]); n > metadataValue {
			wrong("metadata."+name, codeTooLong, "must have at most %d characters, not %d", metadataValue, n)
		}
	}
}

// appendSources returns whether the metadata requests a list of sources after the answer. It
// returns nil if the metadata does not say so either way.
func appendSources(metadata map[string]string, wrong Wrong) *bool {
	switch text, present := metadata[sourcesName]; {
	case !present:
		return nil
	case text == "true", text == "false":
		return new(text == "true")
	default:
		wrong("metadata."+sourcesName, codeInvalidValue, "must be true or false")
		return nil
	}
}
