package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// chunk contains the used fields of a stream's chunk. The SDK's own type decodes every field and
// keeps the source of each, which costs several times as much for each piece of an answer.
type chunk struct {
	Choices []choice `json:"choices"`
	Usage   struct {
		PromptTokens     *int64 `json:"prompt_tokens"`
		CompletionTokens *int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// choice is a piece of one of the answers.
type choice struct {
	Index        int64  `json:"index"`
	FinishReason string `json:"finish_reason"`
	Delta        struct {
		Content   string      `json:"content"`
		Refusal   string      `json:"refusal"`
		ToolCalls []callPiece `json:"tool_calls"`
	} `json:"delta"`
}

// callPiece is a piece of a tool call.
type callPiece struct {
	Index    int64  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON decodes a chunk. It ignores fields of an unexpected type, which some servers send:
// for example a list of thoughts as the content.
func (c *chunk) UnmarshalJSON(raw []byte) error {
	type plain chunk // without this method
	err := json.Unmarshal(raw, (*plain)(c))
	if _, ignored := errors.AsType[*json.UnmarshalTypeError](err); ignored {
		return nil
	}
	return err
}

// stream makes the call, stores its response in res if there is one, and returns the chunks of the
// answer.
func (p *Provider) stream(ctx context.Context, params sdk.ChatCompletionNewParams, res **http.Response) *ssestream.Stream[chunk] {
	_, err := p.chat.New(ctx, params, option.WithJSONSet("stream", true), option.WithResponseBodyInto(res))
	return ssestream.NewStream[chunk](ssestream.NewDecoder(*res), err)
}
