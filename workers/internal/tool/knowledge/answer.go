package knowledge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/truncate"
	"parley/workers/internal/tool"
)

// Notes about the results, for the model.
const (
	noPassages = "No passage of the documents matches. If they may use other words, search for those once; " +
		"otherwise say that the documents do not contain it."
	byWordsOnly = "Only the words of the query were searched, not other words with the same meaning."
)

// output is the part of the result that the model sees in addition to the sources.
type output struct {
	Results []result `json:"results"`
	Note    string   `json:"note,omitempty"`
}

// result describes one passage. The source at the same index contains the full text of the passage.
type result struct {
	DocumentID string   `json:"documentId"`
	Name       string   `json:"name"`
	Page       *int     `json:"page,omitempty"`
	Headings   []string `json:"headings,omitempty"`
	Text       string   `json:"text"`
}

// answer returns the call's result for the given passages. The argument without lists the parts of
// the search that failed.
func answer(found []domain.Found, without []string) (tool.Result, error) {
	out := output{Results: make([]result, 0, len(found))}
	var notes []string
	if len(found) == 0 {
		notes = append(notes, noPassages)
	}
	// Without vectors, the search finds only passages with the same words. So the model should also
	// try other words.
	if slices.Contains(without, "vector") {
		notes = append(notes, byWordsOnly)
	}
	out.Note = strings.Join(notes, " ")

	// The output contains only the beginning of each passage. The source contains the full text.
	var sources []domain.Citation
	for _, f := range found {
		out.Results = append(out.Results, result{
			DocumentID: f.DocumentID, Name: f.Name, Page: f.Page, Headings: f.Headings, Text: shown(f.Text),
		})
		sources = append(sources, domain.Citation{
			Type: "document", Title: f.Name, URL: address(f.Passage), CitedText: f.Text, DocumentID: &f.DocumentID, Page: f.Page,
		})
	}

	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return tool.Result{}, fmt.Errorf("encoding results: %w", err)
	}
	return tool.Result{Output: bytes.TrimSuffix(raw.Bytes(), []byte("\n")), Sources: sources}, nil
}

// shown returns the beginning of a passage in a single line.
func shown(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	if short := truncate.Runes(line, shownText); short != line {
		return short + "…"
	}
	return line
}
