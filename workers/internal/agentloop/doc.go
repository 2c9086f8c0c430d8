// Package agentloop is the turn loop: it asks a model, carries out the tools it wants,
// and asks again until there is an answer. It knows no bus, database or HTTP; what it
// needs of them is the [Journal] it is given and the events it hands out.
//
//	            ┌────────────── result recorded, more calls? ◄─┐
//	            ▼                                              │
//	load ─► model turn ──wants tools──► turn recorded ──► tool call
//	            │
//	            └──no tools──► Output (not recorded: it is saved together with the run's end)
//
// Every model turn that wants tools and every tool call is recorded as a [Step] before
// anything follows from it. A run that another worker takes over loads its steps and goes
// on after the last one: no recorded model call is paid, and no recorded tool call made, a
// second time. What was begun and not recorded is done again.
//
// Calls of a turn that follow each other and have no side effect are made at the same time;
// they are recorded and told in their order. A call that a person must decide about ends Run
// with [*Parked], and is made again by the next one. No call is made of which the model may
// have written only a part. How many are made has a limit for each turn, beyond which they are
// failed ones, and for the run, which ends there.
//
// The text of a run is what its turns wrote, with an empty line between turns; the
// message.delta events put together are that text. Tool results and data sent with the
// message reach the model marked untrusted, and their sources under numbers that count up
// through the session. A number in brackets in the answer, with or without a quote, becomes
// a citation of words that stand in that source, for the words of the answer before it. What
// does not hold is taken out before anyone sees it, and counted; how, see filter.go.
//
// Errors come classified as [*Error], with public code and message, or are the context's,
// or the journal's own. There is one retry layer for models: at most two short retries
// here, while nothing has been shown and the budget gives leave; everything longer is the
// caller's, by putting the run back in the queue.
package agentloop
