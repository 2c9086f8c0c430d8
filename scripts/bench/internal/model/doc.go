// Package model is the provider that the measured agents call: a stub of OpenAI's API that can hold its answers back and counts what it was
// asked.
package model
