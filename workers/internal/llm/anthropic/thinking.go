package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
)

// thinking is the JSON form of llm.Message.Thinking. Its blocks are sent back to the model
// unchanged. The form is stored, so field names must not change. Model is the name in llm.Info.
type thinking struct {
	Model  string          `json:"model"`
	Blocks []thinkingBlock `json:"blocks"`
}

// thinkingBlock is a thought with its signature, or redacted data. Either Redacted is set, or the
// other fields.
type thinkingBlock struct {
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
}

// writeThinking returns an answer's thinking blocks as JSON for storage. It returns nil if there
// are no blocks, or if the blocks cannot be stored unchanged. The provider rejects changed blocks,
// but it accepts a message without blocks.
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

// readThinking returns the stored blocks, or nil if another model has written them. Malformed data
// counts as missing, because a message without blocks is also accepted.
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
