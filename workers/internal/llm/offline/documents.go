package offline

import (
	"strings"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// typeDocument is what sources are that are passages of documents.
const typeDocument = "document"

// notSaid is the answer where documents were searched and say nothing of what was asked.
const notSaid = "The documents do not say this."

// notPlainly goes before what comes nearest where documents have the words asked for, but not the date or the number.
const notPlainly = "The documents do not say this plainly."

// fromDocuments says so when documents were searched and do not say what was asked.
func fromDocuments(results []llm.ToolResult, asked asked) string {
	asked = asked.ofDocuments()
	searched, near := false, false
	for _, r := range results {
		if r.Failed || plain(r.Name) != toolKnowledge {
			continue
		}
		searched = true
		for _, s := range r.Sources {
			if !asked.saidBy(s) {
				continue
			}
			if !asked.expects() || asked.has(s.CitedText) {
				return ""
			}
			near = true
		}
	}
	switch {
	case near:
		return notPlainly
	case searched:
		return notSaid
	}
	return ""
}

// ofDocuments asks the same of documents, where what has not the words asked for is no answer: the search gives its best, however
// little that has to do with the question.
func (a asked) ofDocuments() asked {
	if a.wanted == nil {
		a.wanted = want(a.message)
	}
	return a
}

// saidBy reports whether a passage can be an answer.
func (a asked) saidBy(s domain.Citation) bool {
	if strings.TrimSpace(s.CitedText) == "" {
		return false
	}
	_, enough := a.wanted.in(s.Title+"\n"+s.CitedText, languageFor(s.CitedText))
	return enough
}
