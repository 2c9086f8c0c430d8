package openai

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"parley/workers/internal/llm/remote"
)

// Models returns the names of the server's models, in the server's order. OpenAI's own service
// lists all of its models, so Models omits those whose names show that they cannot answer chats.
// Invalid names are omitted as well.
func (p *Provider) Models(ctx context.Context) (names []string, err error) {
	page, err := p.models.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("requesting the list of models: %w", err)
	}
	for _, model := range page.Data {
		if remote.ModelName(model.ID) && (!p.Official || answersChats(model.ID)) {
			names = append(names, model.ID)
		}
	}
	return names, nil
}

// answersChats reports whether a model of OpenAI's own service answers chats with text, judging by
// the name of the model.
func answersChats(name string) bool {
	in := func(words []string, holds func(string, string) bool) bool {
		return slices.ContainsFunc(words, func(word string) bool { return holds(name, word) })
	}
	return in([]string{"gpt-", "chatgpt-", "o1", "o3", "o4"}, strings.HasPrefix) &&
		!in([]string{"audio", "codex", "deep-research", "image", "instruct", "realtime", "search", "transcribe", "tts"}, strings.Contains)
}
