package offline

import (
	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// typeDocument is the type of a source that is a passage of a document.
const typeDocument = "document"

// notSaid is the answer if none of the found passages answers the question.
const notSaid = "The documents do not say this."

// noDocuments is the answer to a question about the documents as a whole if there are none.
const noDocuments = "There are no documents that I can read."

// notPlainly begins an answer that quotes the best passages. They contain the words of the
// question, but not the date or number that it asks for.
const notPlainly = "The documents do not say this plainly."

// fromDocuments returns notSaid, noDocuments or notPlainly if documents were searched and do not
// answer the question. Otherwise it returns "".
func fromDocuments(results []llm.ToolResult, q question) string {
	q = q.ofDocuments()
	searched, near := false, false
	for _, r := range results {
		if r.Failed || plain(r.Name) != toolKnowledge {
			continue
		}
		searched = true
		for _, s := range r.Sources {
			if !q.answeredBy(s) {
				continue
			}
			if !q.expects() || q.has(s.CitedText) {
				return ""
			}
			near = true
		}
	}

	switch {
	case near:
		return notPlainly
	case searched:
		if document, ok := asksOverview(q.message); ok && document == "" {
			return noDocuments
		}
		return notSaid
	}
	return ""
}

// ofDocuments returns the question with stricter rules for documents. A search returns its best
// results even if they are irrelevant, so a passage must contain enough words of the question. A
// question about the documents as a whole requires no words.
func (q question) ofDocuments() question {
	if _, ok := asksOverview(q.message); ok {
		q.wanted = wanted{}
	} else if q.wanted == nil {
		q.wanted = want(q.message)
	}
	return q
}

// answeredBy reports whether a passage may contain the answer to the question.
func (q question) answeredBy(s domain.Citation) bool {
	if document, _ := asksOverview(q.message); document != "" && document != s.Title || onlyHeadings(s.CitedText) {
		return false
	}
	_, enough := q.wanted.in(s.Title+"\n"+s.CitedText, languageFor(s.CitedText))
	return enough
}
