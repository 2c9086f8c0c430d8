// Package realtime is the protocol of OpenAI's Realtime API (GA) as a state machine: what a client sends, what a voice worker reports and
// what runs tell goes in, and what is to be done comes out as [Effects]. It knows no sockets, no bus, no store and no clock.
//
//	client's events ──► Client ─┐                       ┌──► Events    to the client
//	worker's reports ─► Report ─┤                       ├──► Audio, Commands    to the worker, the audio first
//	worker's speech ──► Audio ──┼──► a Conversation ────┼──► Begin     runs to submit ──► Begun or Refused
//	events of a run ──► Run ────┤                       ├──► End       runs that are done with, and what was heard of them
//	audio was sent ───► Sent ───┘                       └──► Drop, Close
//
// An answer is one response of the protocol and one run of ours; its name is the id of its message:
//
//	Begin ─► Begun ─► response.created ─► item and part ─► transcript and audio, segment by segment ─► said ─► response.done
//	   └──► Refused ─► response.created, response.done failed
//
// Samples are counted on the line: what the client sent, and where an audio item was put between, that too.
//
// A line that was lost is opened again with [Conversation.Resume]: nothing that the worker knew is known to it alone.
package realtime
