package offline_test

import (
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

// TestSchemasAreFilledFromAttachments compares the data of answers and the citations of their
// values. A value in the message takes precedence over the attachments, and documents take
// precedence over images.
func TestSchemasAreFilledFromAttachments(t *testing.T) {
	t.Parallel()
	document := llm.Attachment{Name: "order.pdf", MediaType: "application/pdf", Passages: []domain.Citation{
		passage(0, "order", 1, "Please deliver to the workshop."), passage(0, "order", 2, "The order contains 41 lamps."),
	}}
	image := llm.Attachment{Name: "photo.png", MediaType: "image/png", Image: []byte("png"), Recognized: "12 lamps"}
	for name, c := range map[string]struct {
		message     string
		attachments []llm.Attachment
		want        string
		cited       string // the cited text; "" if there is no citation
	}{
		"a document":              {"How many lamps are ordered?", []llm.Attachment{document}, `{"lamps":41}`, "41"},
		"an image":                {"How many lamps are there?", []llm.Attachment{image}, `{"lamps":12}`, ""},
		"an image and a document": {"How many lamps are ordered?", []llm.Attachment{image, document}, `{"lamps":41}`, "41"},
		"the message first":       {"We order 3 lamps.", []llm.Attachment{document}, `{"lamps":3}`, ""},
		"nothing":                 {"How many lamps are ordered?", nil, `{"lamps":0}`, ""},
	} {
		contract, err := agentloop.NewContract([]byte(`{"type":"object","properties":{"lamps":{"type":"integer"}},"required":["lamps"]}`))
		if err != nil {
			t.Fatal(err)
		}
		in := agentloop.Input{Message: c.message, Model: offline.Model{}, Attachments: c.attachments, Contract: contract}
		out, err := agentloop.New(agentloop.Config{}).Run(t.Context(), in, noSteps{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cited := ""
		if len(out.Citations) > 0 {
			cited = out.Citations[0].CitedText
		}
		if string(out.Data) != c.want || cited != c.cited || out.CitationsRemoved != 0 {
			t.Errorf("%s: %s, citations %+v, %d removed; want %s", name, out.Data, out.Citations, out.CitationsRemoved, c.want)
		}
	}
}
