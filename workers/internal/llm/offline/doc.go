// Package offline holds the models that need no provider and no key, so that the whole
// service can be used, tested and benched without one.
//
//   - "offline" follows fixed rules and says so in the first answer of a session. It
//     knows no language and no facts. It asks for the tools that fit and answers from
//     their results:
//
//     user message ─┬─ names a tool ──────────► that tool ───────────┐
//     .             ├─ code, computation, plot ► codeExecution ──────┤
//     .             ├─ question, short topic ──► knowledge, webSearch ┤
//     .             └─ no tool fits ──────────────────────────────────┴─► answer
//
//     A tool (an endpoint of httpRequest, a tool of an MCP server) is named by its name, or by all words of it.
//     Its arguments are the JSON object in the message, and what it says by name: "id: 7", "id = 7". Nothing is guessed: a
//     tool that lacks something is not called, and the answer says what it needs.
//     Tools are asked for once a message, all at the same time. What their sources say is stated in the sources' own
//     words, with a marker behind each sentence; a tool that failed, that a person refused, or that found nothing is
//     named. Of documents, a passage counts that has the words asked for, whatever their language and however they are
//     inflected: of two both, of up to four all but one, of more three in five, with all names and numbers and the longest
//     word among them. When none has, the answer says that the documents do not say this; when none of those that have tells
//     the date or the number asked for, that they do not say it plainly. Without tools it does simple arithmetic, finds what
//     was said earlier in the session, looks for the answer among its instructions and the data sent along, and otherwise
//     says that it cannot answer.
//
//     Where code can be run, it has the Python blocks of a message run as they are, with the files that "files: a.csv, b.csv"
//     outside of them names and with documents whose ids stand there. It writes a program for a calculation, and for "the sum
//     (product, count, mean, median, minimum, maximum, standard deviation, variance) of" a list of numbers or of "the numbers
//     (squares, cubes) from 1 to 10", or these numbers themselves. "… and plot it", or "plot" before it, plots the numbers. The
//     answer is what the program printed and left, or the error that ended it.
//
//   - "offline/echo" answers "echo: " and the message, exactly and at once.
//
// Both give the same answer to the same request. Their token is a whitespace-separated
// word: of the whole prompt and the answer for "offline", of the message and the answer
// for "offline/echo", which reads nothing else.
package offline
