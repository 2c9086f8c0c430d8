// Package openaistub is a server that speaks OpenAI's Chat Completions on the wire and
// answers by rule instead of by model: for tests and benches over real HTTP, slow runs
// and every way in which a provider fails. Standard library only.
//
// It answers the last user message with "echo: " and its text. A message may begin with
// directives, each ended by a colon, that are carried out and left out of the echo:
//
//	sleep 30s: hello          wait before the first byte, until the client leaves at most
//	fault 500: hello          fail as named below
//	fault 429=7*2: hello      ... with parameter 7, and only the first 2 requests of this prompt
//	tool webSearch: hello     ask for that tool with {"query":"hello"}; when its result is
//	                          sent back, answer "tool webSearch said: " and the result
//
// They combine: "sleep 1s: fault cut*1: hello". Directives of requests whose last message
// is a tool's result are not carried out again, but for that answer.
//
// Faults (parameters are optional):
//
//	refuse      close the connection without an answer
//	hang        never answer, until the client leaves
//	<status>    answer with that HTTP status and OpenAI's error body; 429 and 503 take
//	            the seconds of Retry-After as parameter (1)
//	context     400 with code context_length_exceeded
//	quota       429 with code insufficient_quota
//	html        200 with a web page
//	cut         reset the connection in the middle of the answer
//	eof         end the stream in the middle of the answer, as if it were complete
//	stall       stop in the middle of the answer, until the client leaves
//	badjson     send a chunk that is no JSON in the middle of the answer
//	event       send an error event in the middle of the answer
//	badargs     ask for the tool named by the parameter (webSearch) with arguments that are no JSON
//	cutcall     break off in the middle of a tool call
//	length      stop for the output limit in the middle of the answer
//	nousage     answer well, without usage
//
// Those inside an answer need a streamed one; other requests are answered well.
package openaistub
