// Package realtime implements the protocol of OpenAI's Realtime API (GA) as a state machine. Its
// inputs are the events of a client, a voice worker and runs. Its outputs are [Effects]: actions to
// perform. It uses no sockets, bus, store or clock.
//
//	client's events ──► Client ─┐                       ┌──► Events    to the client
//	worker's reports ─► Report ─┤                       ├──► Audio, Commands    to the worker, the audio first
//	worker's speech ──► Audio ──┼──► a Conversation ────┼──► Begin     runs to submit ──► Begun or Refused
//	events of a run ──► Run ────┤                       ├──► End       runs that have ended, and how much of them was played
//	audio was sent ───► Sent ───┘                       └──► Drop, Close
//
// An answer is one response of the protocol and one run. Its name is the id of its message:
//
//	Begin ─► Begun ─► response.created ─► item and part ─► transcript and audio, segment by segment ─► said ─► response.done
//	   └──► Refused ─► response.created, response.done failed
//
// Samples are numbered on the voice session. They include the client's stream and inserted audio
// items.
//
// If a worker is lost, [Conversation.Resume] opens a session with another one. A worker has no
// state that the conversation lacks.
package realtime
