package openaiapi

import "parley/shared/domain"

// ResponseAnnotation is a citation in the form of OpenAI's Responses API.
type ResponseAnnotation = annotation

// Annotations returns the citations of an answer in the form of OpenAI's Responses API, for other
// packages that use the same form. It returns nil if there are no citations. It omits citations
// that have neither a document nor a URL.
func Annotations(citations []domain.Citation) []ResponseAnnotation {
	var out []ResponseAnnotation
	for _, c := range citations {
		if a, ok := newAnnotation(c); ok {
			out = append(out, a)
		}
	}
	return out
}

// WaitsForPerson returns the error for a run that waits for a person's decision about a tool call.
// Its code is requires_action, and its message names the tool and says how to decide.
func WaitsForPerson(runID string, action *domain.RequiredAction) Error {
	return requiresActionError(runID, action)
}

// CheckMetadata validates the metadata of a response. It calls wrong for each invalid value.
func CheckMetadata(metadata map[string]string, wrong Wrong) { checkMetadata(metadata, wrong) }
