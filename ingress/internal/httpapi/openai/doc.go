// Package openai speaks OpenAI's API, but for voice.
package openai
