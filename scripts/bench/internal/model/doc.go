// Package model is the LLM provider of the measured agents: a stub of OpenAI's API that can delay
// and hold its answers, and that records the messages it receives.
package model
