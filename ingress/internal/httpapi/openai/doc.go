// Package openai implements OpenAI's HTTP API except for voice.
package openai
