// Package openai handles requests in the format of OpenAI's HTTP API: models, chat completions,
// responses and embeddings. Voice is in package voicegate.
package openai
