package anthropic

import (
	"encoding/base64"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
)

// userBlocks returns the content of a user message. The images precede the text, as the provider
// recommends. The content always includes a text block.
func userBlocks(message llm.Message) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, image := range message.Images() {
		blocks = append(blocks, sdk.NewImageBlockBase64(image.ImageType, base64.StdEncoding.EncodeToString(image.Image)))
	}
	return append(blocks, textBlock(llm.RenderUser(message)))
}
