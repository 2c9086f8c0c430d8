package openai

import (
	"encoding/base64"

	sdk "github.com/openai/openai-go/v3"

	"parley/workers/internal/llm"
)

// newUserMessage converts a user message. The images of the message follow its text, in order, as
// data URLs. A message without images has a plain text, which all servers accept.
func newUserMessage(m llm.Message) sdk.ChatCompletionMessageParamUnion {
	images := m.Images()
	if len(images) == 0 {
		return sdk.UserMessage(llm.RenderUser(m))
	}
	parts := []sdk.ChatCompletionContentPartUnionParam{sdk.TextContentPart(llm.RenderUser(m))}
	for _, image := range images {
		address := "data:" + image.ImageType + ";base64," + base64.StdEncoding.EncodeToString(image.Image)
		parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: address}))
	}
	return sdk.UserMessage(parts)
}
