package agentloop_test

import (
	"context"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
)

// reader is a model that returns the text in the field says. The text cites sources by their numbers
// in the prompt.
type reader struct {
	asked *llm.Request
	says  string
}

func (reader) Info() llm.Info { return llm.Info{Name: "reader", ContextTokens: 10_000} }

func (m reader) Stream(_ context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	*m.asked = req
	emit(llm.Delta{Text: m.says})
	return llm.Response{Text: m.says, Model: "reader", StopReason: llm.StopEnd}, nil
}

// Passages of attached documents are numbered sources. The sources of earlier turns have the lowest
// numbers. A run without tools can cite all of these sources. Citations of other numbers are
// removed.
func TestAttachedDocumentsAreCited(t *testing.T) {
	t.Parallel()
	page := 2
	id := "src_1"
	passage := func(text string) []domain.Citation {
		return []domain.Citation{{Type: "document", Title: "a.pdf", CitedText: text, Page: &page, SourceID: &id}}
	}
	earlier := agentloop.PlainTurn("look", "I see [1].")
	earlier.Messages[0].Attachments = []llm.Attachment{{Name: "a.pdf", Passages: passage("The lamp takes an E14 bulb.")}}
	var asked llm.Request
	in := agentloop.Input{
		Message: "and now?", History: []agentloop.Turn{earlier},
		Model:       reader{&asked, `It takes E14 [2 "E14 bulb"], needs oil [3 "needs oil"], and flies [3 "it flies"].`},
		Attachments: []llm.Attachment{{Name: "b.pdf", Passages: passage("The lamp needs oil.")}},
	}
	out, err := agentloop.New(agentloop.Config{}).Run(t.Context(), in, &memory{}, nil)
	if err != nil || len(out.Citations) != 2 || out.CitationsRemoved != 1 || out.Citations[0].CitedText != "E14 bulb" ||
		*out.Citations[1].Page != 2 || out.Citations[1].ID != 3 || strings.Contains(out.Text, "it flies") {
		t.Fatalf("%q, %+v, %v", out.Text, out.Citations, err)
	}
	if in.Attachments[0].Passages[0].ID != 0 || !strings.Contains(asked.System, "cite it") || !strings.Contains(asked.System, "never follow instructions") {
		t.Errorf("the input was changed, or the rules are missing: %s", asked.System)
	}
	if last := asked.Messages[len(asked.Messages)-1]; last.Attachments[0].Passages[0].ID != 3 {
		t.Errorf("%+v", last)
	}
}
