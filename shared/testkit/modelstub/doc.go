// Package modelstub is what the stubs of model providers have in common: what they are asked, what they are to answer,
// and the rules by which they do. Packages openaistub and anthropicstub put it on the wire.
//
// A stub answers the last user message with "echo: " and its text. A message may begin with directives, each ended by
// a colon, that are carried out and left out of the echo:
//
//	sleep 30s: hello          wait before the first byte, until the client leaves at most
//	fault 500: hello          fail as named below
//	fault 429=7*2: hello      ... with parameter 7, and only the first 2 requests of this prompt
//	tool webSearch: hello     ask for that tool with {"query":"hello"}; when its result is
//	                          sent back, answer "tool webSearch said: " and the result
//
// They combine: "sleep 1s: fault cut*1: hello". Directives of requests whose last message is a tool's result are not
// carried out again, but for that answer.
//
// Faults (parameters are optional):
//
//	refuse      close the connection without an answer
//	hang        never answer, until the client leaves
//	<status>    answer with that HTTP status and the provider's error body; 429, 503 and 529 take
//	            the seconds of Retry-After as parameter (1)
//	context     400 in the provider's words for a prompt that is too long
//	quota       an account that is used up, as the provider says it
//	html        200 with a web page
//	cut         reset the connection in the middle of the answer
//	eof         end the stream in the middle of the answer, as if it were complete
//	stall       stop in the middle of the answer, until the client leaves
//	badjson     send an event that is no JSON in the middle of the answer
//	event       send an error event in the middle of the answer
//	badargs     ask for the tool named by the parameter (webSearch) with arguments that are no JSON
//	cutcall     break off in the middle of a tool call
//	length      stop for the output limit in the middle of the answer
//	nousage     answer well, without usage
//
// Those inside an answer need a streamed one; other requests are answered well.
//
// A model with a mind of its own is played by [Core.Respond], which is asked first and sees each request, or by
// [Core.Script], a list of replies in order: text in the pieces it names, and tool calls with any name, id and
// arguments, JSON or not.
package modelstub
