package openaiapi

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
)

// sourcedRun returns a run whose answer cites a page twice and a document once, and whose programs
// created files.
func sourcedRun() domain.Run {
	run := endedRun("Ä grew [1] [2] [1].",
		domain.ToolCall{
			ID: "1", Name: "codeExecution", Status: "completed", Input: json.RawMessage(`{"code":"1"}`),
			Output: json.RawMessage(`{"stdout":"","files":[{"id":"file_1","name":"a.csv","mimeType":"text/csv"},{"id":"file_2","name":"b.png","mimeType":"image/png"}]}`),
		},
		domain.ToolCall{
			ID: "2", Name: "codeExecution", Status: "failed", Input: json.RawMessage(`{"code":"2"}`),
			Output: json.RawMessage(`{"error":"e","files":[{"id":"file_3","name":"a.csv","mimeType":"text/csv"}]}`),
		},
		domain.ToolCall{ID: "3", Name: "elsewhere", Status: "completed", Output: json.RawMessage(`{"files":[{"id":"file_4","name":"c"}]}`)})
	page := domain.Citation{ID: 1, Type: "web", Title: "*T* <b>", URL: "https://example.com/a b)", StartIndex: 0, EndIndex: 6}
	document := domain.Citation{ID: 2, Type: "document", Title: "hand_book.pdf", DocumentID: new("doc_1"), Page: new(3), EndIndex: 6}
	run.Citations = []domain.Citation{page, document, page}
	return run
}

const wantAppendix = "\n\n**Sources**\n\n- [1] [\\*T\\* \\<b\\>](https://example.com/a%20b%29)\n- [2] hand\\_book.pdf, page 3" +
	"\n\n**Files**\n\n- [a.csv](https://p/files?token=file_3)\n- ![b.png](https://p/files?token=file_2)"

func linked(fileID string) string { return "https://p/files?token=" + fileID }

func TestAppendix(t *testing.T) {
	t.Parallel()
	run := sourcedRun()
	answer := View{AppendSources: new(true), Link: linked}.answer(&run)
	if answer.appendix != wantAppendix || answer.text != *run.Message+wantAppendix {
		t.Errorf("appendix %q, want %q", answer.appendix, wantAppendix)
	}
	runes := []rune(answer.text)
	for i, want := range []string{"[a.csv](https://p/files?token=file_3)", "![b.png](https://p/files?token=file_2)"} {
		if got := string(runes[answer.files[i].start:answer.files[i].end]); got != want {
			t.Errorf("place of file %d: %q, want %q", i, got, want)
		}
	}

	for name, view := range map[string]View{"not wanted": {Link: linked}, "refused": {AppendSources: new(false), Link: linked}} {
		if got := view.answer(&run); got.text != *run.Message || len(got.files) != 2 || got.files[0].start != 19 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	run.AppendSources = true
	if got := (View{}).answer(&run); strings.Contains(got.text, "Files") || !strings.Contains(got.text, "Sources") {
		t.Errorf("without links: %q", got.text)
	}
	run.Citations, run.ToolCalls = nil, nil
	if got := (View{Link: linked}).answer(&run); got.text != *run.Message {
		t.Errorf("without sources and files: %q", got.text)
	}
}

// Clients send answers back together with the lists of sources and files. The service must remove
// these lists.
func TestHistoryLosesTheAppendix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Tea." + wantAppendix:                        "Tea.",
		"Tea." + wantAppendix + "\n":                 "Tea.",
		"Tea.\n\n**Files**\n\n- [a](https://p)":      "Tea.",
		"Tea.\n\n**Sources**\n\nA book.":             "Tea.\n\n**Sources**\n\nA book.",
		"Tea.\n\n**Sources**\n\n- [1] x\n\nAnd more": "Tea.\n\n**Sources**\n\n- [1] x\n\nAnd more",
		"Tea.": "Tea.",
	} {
		c := Converse([]Said{{Role: RoleUser, Text: "q"}, {Role: RoleAssistant, Text: text}, {Role: RoleUser, Text: wantAppendix}}, "messages", nil)
		if c.History[0].Answer != want || c.Message != wantAppendix {
			t.Errorf("%q became %q, want %q; the question became %q", text, c.History[0].Answer, want, c.Message)
		}
	}
}

// The concatenated pieces of a stream, the text in the stream's last event, and the text of the
// response must be equal.
func TestStreamsEndWithTheAppendix(t *testing.T) {
	t.Parallel()
	run := sourcedRun()
	run.AppendSources = true
	echo := ResponseEcho{View: View{Link: linked}}
	log := []domain.Event{logCreated(t), logStarted(), logDelta(t, 1, "Ä grew"), logEnded(t, run)}
	events, _ := encodedFor(t, echo, log...)
	whole := *run.Message + wantAppendix
	var text string
	annotations := 0
	for _, e := range events {
		switch e.kind {
		case "response.output_text.delta":
			delta, _ := e.data["delta"].(string)
			text += delta
		case "response.output_text.annotation.added":
			annotations++
		case "response.output_text.done":
			if e.data["text"] != whole {
				t.Errorf("output_text.done %v, want %q", e.data["text"], whole)
			}
		}
	}
	if text != whole || annotations != 5 {
		t.Errorf("%d annotations, text %q, want 5, %q", annotations, text, whole)
	}
	response := rendered(t, NewResponse(&run, echo))
	if !strings.Contains(response, `{"type":"container_file_citation","container_id":"s","file_id":"file_3","filename":"a.csv","start_index":`) ||
		!strings.Contains(response, `"url":"https://p/files?token=file_2"`) || !strings.Contains(response, `"text":`+rendered(t, whole)) {
		t.Errorf("response %s", response)
	}

	c := NewCompletionStream(streamedRun, false, echo.View)
	var out []byte
	for _, e := range log {
		var err error
		if out, _, err = c.Append(out, e); err != nil {
			t.Fatal(err)
		}
	}
	checkStream(t, string(out), whole)
	if got := NewCompletion(&run, echo.View); *got.Choices[0].Message.Content != whole || len(got.Choices[0].Message.Annotations) != 5 {
		t.Errorf("completion %+v", got)
	}
}
