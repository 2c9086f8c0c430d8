// Package offline contains models that need no provider and no key, so that the whole service can
// be used, tested and benchmarked without a provider.
//
// "offline" follows fixed rules, and the first answer of a session says so. It understands no
// language and knows no facts. It requests suitable tools and answers from their results:
//
//	user message ─┬─ names a tool ──────────► that tool ───────────┐
//	              ├─ code, computation, plot ► codeExecution ──────┤
//	              ├─ question, short topic ──► knowledge ──────────┤ (without it: webSearch)
//	              ├─ "search the web" ───────► webSearch ──────────┤
//	              └─ no tool fits ──────────────────────────────────┴─► answer
//
// Tools:
//
//   - A message names a tool (an endpoint of httpRequest, a tool of an MCP server) by its name,
//     or by all words of its name.
//   - The arguments come from the JSON object in the message, and from values with a name: "id: 7",
//     "id = 7". Nothing is guessed. If a required argument is missing, the tool is not called, and
//     the answer names the missing argument.
//   - The model requests all tools for a message at once. If it has documents, it searches the web
//     only if the message begins with "search the web", or ends with a sentence that says so.
//   - The model obeys a choice of tools. If a call is forced, the message becomes the value of each
//     missing text.
//   - Templates suggest some messages that fixed rules cannot answer. These messages have prepared
//     programs and answers (see examples.go).
//
// Answers:
//
//   - An answer quotes the sources in their own words, with a marker after each sentence. If the
//     message begins with "compare", the answer quotes one sentence of each source, with its title.
//     For the main points of the documents, it quotes the beginnings of their sections.
//   - A row of a table becomes a sentence with the names of the columns. A heading is not quoted.
//   - The answer names tools that failed, that a person rejected, or that found nothing. It does
//     not name a failed search if another search found the answer.
//   - A passage of a document counts if it contains enough words of the question, in any language
//     and inflection. If the question has two words, the passage must contain both. If it has three
//     or four, all except one; if more, three fifths. It must also contain all names, all numbers
//     and the longest word.
//   - If no passage counts, the answer says that the documents do not say this. If the model can
//     search the web, the answer also says how to request a search. If passages count, but none
//     contains the date or number that the question asks for, the answer says that they do not say
//     it plainly.
//   - Without tools, the model does simple arithmetic. It also looks for an answer in the session,
//     in its instructions and in the data sent with the message. Otherwise it says that it cannot
//     answer.
//
// Code, if codeExecution is available:
//
//   - Python blocks of a message run unchanged. Outside of the blocks, the message may list their
//     files, such as "files: a.csv, b.csv", or contain ids of documents.
//   - The model writes a program for a calculation. It also writes one for "the sum (product,
//     count, mean, median, minimum, maximum, standard deviation, variance) of" a list of numbers or
//     of "the numbers (squares, cubes) from 1 to 10", and for these numbers themselves. With "… and
//     plot it", or with "plot" before it, the program plots the numbers. The answer rounds
//     numbers to four decimal places.
//   - The answer contains the program's output and files, or the error that ended the program.
//
// If the answer must match a schema, the model fills in the schema; see package fill.
//
// "offline/echo" answers "echo: " and the message.
//
// Both models give the same answer to the same request. They end the answer after Request.MaxTokens
// tokens, or before a text in the setting stop. If parallelToolCalls is false, "offline" requests
// only the first tool. The other settings have no effect. A token is a word between white space.
// "offline" counts the words of the whole prompt and of the answer. "offline/echo" counts the words
// of the message and of the answer, because it reads nothing else.
package offline
