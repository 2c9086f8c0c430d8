// Package realtime implements the protocol of OpenAI's Realtime API (GA) as a state machine. Its
// inputs are events from a client, a voice worker and runs. Its outputs are [Effects]: actions for
// the caller to perform. It does not use sockets, the bus, the store or the clock.
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
// Samples are numbered within the voice session. They include the client's stream and the audio of
// inserted items.
//
// If a worker is lost, [Conversation.Resume] returns the settings, audio and commands for a session
// with another worker. A worker has no state that the conversation lacks.
package realtime
