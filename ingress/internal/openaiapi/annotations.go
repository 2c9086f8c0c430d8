package openaiapi

import "parley/shared/domain"

// ResponseAnnotation is a citation as this protocol shows it.
type ResponseAnnotation = annotation

// Annotations gives the citations of an answer for protocols that show them as this one does; nil for none.
func Annotations(citations []domain.Citation) []ResponseAnnotation {
	var out []ResponseAnnotation
	for _, c := range citations {
		out = append(out, newAnnotation(c))
	}
	return out
}

// WaitsForPerson says that a run waits for a person's decision about the call of a tool.
func WaitsForPerson(runID string, action *domain.RequiredAction) Error {
	return requiresActionError(runID, action)
}

// CheckMetadata tells what is wrong with the metadata of a response.
func CheckMetadata(metadata map[string]string, wrong Wrong) { checkMetadata(metadata, wrong) }
