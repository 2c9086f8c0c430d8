// Package anthropicstub is a server for Anthropic's Messages API. It answers by rules or a script
// instead of a model, as package openaistub does for OpenAI's API. It uses only the standard
// library. Package modelstub documents the rules: echo, directives and faults.
//
// The server enforces the API's requirements on clients: alternating roles beginning with the user,
// no empty text, an output limit, and the result of every tool call in the very next message. A
// violation gets status 400.
package anthropicstub
