// Package voice implements OpenAI's Realtime API.
package voice
