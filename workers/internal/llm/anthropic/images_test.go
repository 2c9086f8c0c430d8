package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/workers/internal/llm"
)

// Images precede the text of their message, and are encoded as base64.
func TestImagesOnTheWire(t *testing.T) {
	t.Parallel()
	blocks := userBlocks(llm.Message{Role: llm.RoleUser, Text: "look", Attachments: []llm.Attachment{
		{Name: "a.png", MediaType: "image/webp", Image: []byte("pixels"), ImageType: "image/png"},
	}})
	raw, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	const image = `[{"source":{"data":"cGl4ZWxz","media_type":"image/png","type":"base64"},"type":"image"},{"text":"look\n\nFiles attached`
	if !strings.HasPrefix(string(raw), image) || len(blocks) != 2 {
		t.Errorf("%s", raw)
	}
}
