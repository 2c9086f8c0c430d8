package openai

import (
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chunk contains those fields of a chunk that this package uses. The SDK's own type decodes every
// field and also keeps the field's JSON text. This costs several times as much processor time for
// each piece of an answer.
type chunk struct {
	Error   jsontext.Value `json:"error"` // set if the event is an error and not a chunk
	Choices []choice       `json:"choices"`
	Usage   struct {
		PromptTokens     *int64 `json:"prompt_tokens"`
		CompletionTokens *int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// choice is a piece of one of the requested answers. FinishReason is "" in all pieces except the
// last.
type choice struct {
	Index        int64  `json:"index"`
	FinishReason string `json:"finish_reason"`
	Delta        struct {
		Content   string      `json:"content"`
		Refusal   string      `json:"refusal"`
		ToolCalls []callPiece `json:"tool_calls"`
	} `json:"delta"`
}

// callPiece is a piece of a tool call. Index distinguishes parallel calls, but some servers always
// send 0.
type callPiece struct {
	Index    int64  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// decodeChunk decodes a chunk into c. All fields of c must be zero, except that c.Choices may be an
// empty slice, whose memory is reused. decodeChunk fails only if data is not JSON.
func decodeChunk(data []byte, c *chunk) error {
	if jsonv2.Unmarshal(data, c) == nil {
		return nil
	}

	// The decoder above fails if a field has an unexpected type, but the decoder of encoding/json
	// ignores such a field. Some servers send such fields, for example a list of thoughts as the
	// content.
	*c = chunk{}
	err := json.Unmarshal(data, c)
	if _, ignored := errors.AsType[*json.UnmarshalTypeError](err); ignored {
		return nil
	}
	return err
}
