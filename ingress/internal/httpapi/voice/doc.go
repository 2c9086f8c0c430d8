// Package voice speaks OpenAI's Realtime API.
package voice
