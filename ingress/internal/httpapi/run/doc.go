// Package run handles chats, automations, runs and sessions, their event streams, and the sources
// and files of runs.
//
//	chat.go, automation.go ─► dispatch.Submission ─► accept ─► respond     (waits for the result)
//	format.go, thread.go ────┘                        └─────► submitStream (streams the events)
//	runs.go, sessions.go, timeline.go, export.go      reads of what is stored
//
// A submission is accepted by package dispatch, in one commit. From then on, the run finishes
// whatever happens to the request. While thousands of requests wait, their goroutines must be
// small: functions that need large stacks run on goroutines of package offload, and some functions
// must not be inlined.
//
// The caller determines which runs are visible. Members see their own runs, and admins see all runs
// of the organization. Visitors of widgets see their own runs, without the data that visible.go
// removes. Every response with a run or an event passes through that file.
//
// Other protocols use Handler too: package openai for its submissions, streams and files.
package run
