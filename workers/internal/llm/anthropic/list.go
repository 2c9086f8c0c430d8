package anthropic

import (
	"context"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm/remote"
)

// maxPage is the maximum number of models on a page of the list. Only the first page is read.
const maxPage = 100

// Models returns the names of the newest models that the server lists, at most maxPage. Invalid
// names are omitted.
func (p *Provider) Models(ctx context.Context) (names []string, err error) {
	page, err := p.models.List(ctx, sdk.ModelListParams{Limit: sdk.Int(maxPage)})
	if err != nil {
		return nil, fmt.Errorf("requesting the list of models: %w", err)
	}
	for _, model := range page.Data {
		if remote.ModelName(model.ID) {
			names = append(names, model.ID)
		}
	}
	return names, nil
}
