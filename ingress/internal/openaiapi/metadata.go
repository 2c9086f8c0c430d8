package openaiapi

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// OpenAI's limits for metadata, which responses repeat unchanged.
const (
	metadataPairs = 16
	metadataName  = 64 // characters
	metadataValue = 512

	sessionName = "session_id"     // the session's name in metadata
	sourcesName = "append_sources" // whether the text ends with a list of sources and files
)

// checkMetadata validates a request's metadata.
func checkMetadata(metadata map[string]string, wrong Wrong) {
	if len(metadata) > metadataPairs {
		wrong("metadata", codeTooLong, "must have at most %d pairs, not %d", metadataPairs, len(metadata))
		return // one error instead of one for each
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if n := utf8.RuneCountInString(name); n > metadataName {
			wrong("metadata", codeTooLong, "a name must have at most %d characters, not %d", metadataName, n)
		} else if n := utf8.RuneCountInString(metadata[name]); n > metadataValue {
			wrong("metadata."+name, codeTooLong, "must have at most %d characters, not %d", metadataValue, n)
		}
	}
}

// appendSources returns the request's choice about a list of sources, or nil if it makes none.
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
