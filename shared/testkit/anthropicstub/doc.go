// Package anthropicstub is a server that speaks Anthropic's Messages API on the wire and answers by rule or script
// instead of by model, as openaistub does for OpenAI's. Standard library only. Package modelstub has the rules: echo,
// directives, faults.
//
// It holds clients to what the API holds them to: alternating roles beginning with the user, no empty text, a limit
// for the answer, and every call of a tool answered in the very next message. Whatever breaks that is a 400.
package anthropicstub
