package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
)

// thinking is what llm.Message.Thinking holds of a model here: its blocks, to be given back to it unchanged.
type thinking struct {
	Model  string          `json:"model"`
	Blocks []thinkingBlock `json:"blocks"`
}

// thinkingBlock is one block: thoughts with their signature, or sealed data.
type thinkingBlock struct {
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
}

// writeThinking gives the blocks of an answer, nil if it has none. Thoughts that cannot be stored as they are, are
// left out together: a changed one is refused, a missing one is not.
func writeThinking(model string, blocks []thinkingBlock) json.RawMessage {
	if len(blocks) == 0 {
		return nil
	}
	b, err := json.Marshal(thinking{Model: model, Blocks: blocks})
	if err != nil {
		return nil
	}
	clean, err := llm.CleanJSON(b)
	if err != nil || string(clean) != string(b) {
		return nil
	}
	return b
}

// readThinking gives the blocks that a model may be sent: its own.
func readThinking(raw json.RawMessage, model string) []sdk.ContentBlockParamUnion {
	var t thinking
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil || t.Model != model {
		return nil
	}
	blocks := make([]sdk.ContentBlockParamUnion, 0, len(t.Blocks)+1)
	for _, b := range t.Blocks {
		if b.Redacted != "" {
			blocks = append(blocks, sdk.NewRedactedThinkingBlock(b.Redacted))
			continue
		}
		blocks = append(blocks, sdk.NewThinkingBlock(b.Signature, b.Thinking))
	}
	return blocks
}
