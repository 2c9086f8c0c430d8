// Package offline contains models that need no provider and no key, so that the whole service can
// be used, tested and benchmarked without one.
//
// "offline" follows fixed rules and says so in the first answer of a session. It understands no
// language and knows no facts. It requests the tools that fit and answers from their results:
//
//	user message ─┬─ names a tool ──────────► that tool ───────────┐
//	              ├─ code, computation, plot ► codeExecution ──────┤
//	              ├─ question, short topic ──► knowledge ──────────┤
//	              │                            └ no answer ► webSearch
//	              └─ no tool fits ──────────────────────────────────┴─► answer
//
// Tools:
//
//   - A message names a tool (an endpoint of httpRequest, a tool of an MCP server) by its name,
//     or by all words of its name.
//   - Its arguments are the JSON object in the message, and values given by name: "id: 7", "id =
//     7". Nothing is guessed. If a required argument is missing, the tool is not called, and the
//     answer says what it needs.
//   - The model requests tools once for a message, all together. It searches the web only if the
//     documents do not answer the question, or if the message begins with "search the web".
//   - A tool choice is obeyed. A forced call gets the message as its missing texts.
//   - Messages that templates suggest, and that fixed rules cannot answer, have prepared programs and
//     answers (see examples.go).
//
// Answers:
//
//   - Statements of sources are quoted in the sources' words, with a marker after each sentence.
//   - The answer names tools that failed, that a person rejected, or that found nothing.
//   - A passage of a document counts if it contains enough of the words of the question, whatever
//     their language and inflection: both of two, all but one of up to four, three in five of
//     more. All names and numbers and the longest word must be among them.
//   - If no passage counts, the answer says that the documents do not say this. If passages count
//     but none contains the date or number that the question asks for, it says that they do not
//     say it plainly.
//   - Without tools, the model does simple arithmetic, and looks for an answer in the session,
//     its instructions and the data sent with the message. Otherwise it says that it cannot
//     answer.
//
// Code, if codeExecution is available:
//
//   - Python blocks of a message run unchanged, with the files that "files: a.csv, b.csv" outside
//     of them names, and with documents whose ids are there.
//   - The model writes a program for a calculation, and for "the sum (product, count, mean,
//     median, minimum, maximum, standard deviation, variance) of" a list of numbers or of "the
//     numbers (squares, cubes) from 1 to 10", or for these numbers themselves. "… and plot it",
//     or "plot" before it, plots the numbers.
//   - The answer contains the program's output and files, or the error that ended it.
//
// If the answer must match a schema, the model fills the schema: see package fill.
//
// "offline/echo" answers "echo: " and the message.
//
// Both give the same answer to the same request. They end it after Request.MaxTokens tokens, and before
// a text of the setting stop. If parallelToolCalls is false, "offline" requests only the first tool.
// The other settings have no effect. Their tokens are whitespace-separated words: of the whole prompt
// and the answer for "offline", of the message and the answer for "offline/echo", which reads nothing
// else.
package offline
