// Package modelstub is the common part of the stubs of model providers: requests, replies, and the
// rules for replies. Packages openaistub and anthropicstub implement the providers' protocols with
// it.
//
// A stub answers the last user message with "echo: " and the message's text. A message may begin
// with directives, each ended by a colon, that are executed and omitted from the echo:
//
//	sleep 30s: hello          wait before the first byte, or until the client disconnects
//	fault 500: hello          fail as listed below
//	fault 429=7*2: hello      ... with parameter 7, and only for the first 2 requests of this prompt
//	tool webSearch: hello     call that tool with {"query":"hello"}; when its result is
//	                          sent back, answer "tool webSearch said: " and the result
//
// Directives can be combined: "sleep 1s: fault cut*1: hello". If the last message of a request is a
// tool's result, the directives of the last user message are not executed again, and the answer
// contains the result.
//
// Faults (parameters are optional):
//
//	refuse      close the connection without an answer
//	hang        never answer, until the client disconnects
//	<status>    answer with that HTTP status and the provider's error body; for 429, 503 and 529 the
//	            parameter is the Retry-After in seconds (1)
//	context     400 in the provider's words for a prompt that is too long
//	quota       an exhausted account, in the provider's words
//	html        200 with a web page
//	cut         reset the connection in the middle of the answer
//	eof         end the stream in the middle of the answer, as if it were complete
//	stall       stop in the middle of the answer, until the client disconnects
//	badjson     send an event with invalid JSON in the middle of the answer
//	event       send an error event in the middle of the answer
//	badargs     call the tool in the parameter (webSearch) with invalid JSON as arguments
//	cutcall     reset the connection in the middle of a tool call
//	length      stop for the output limit in the middle of the answer
//	content_filter  stop for the provider's filter in the middle of the answer (OpenAI's protocol only)
//	nousage     answer normally, without usage
//
// Faults within an answer require a streamed one; other requests are answered normally.
//
// For more complex behavior use [Core.Respond], which is called first with each request, or
// [Core.Script], a list of replies in order: text in given pieces, and tool calls with any name, id
// and arguments, valid JSON or not.
package modelstub
