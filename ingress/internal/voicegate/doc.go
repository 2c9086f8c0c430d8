// Package voicegate connects a voice client's WebSocket with a voice worker and with runs.
//
//	client ⇄ reader, writer ⇄ owner ⇄ line ⇄ voice worker
//	                            │
//	                            └─ turns: start, follow and cancel runs, and store how much was played
//
// One goroutine owns a connection. It passes each input to the conversation (package realtime) and
// performs the resulting effects. Other goroutines read, write, open voice sessions, and start and
// follow runs. Each of them waits only for its own client, worker or database query. If the client,
// the worker or the query is slow, it delays neither the owner nor other connections.
//
// All queues are bounded. The gate stops reading from a client that sends faster than the worker
// processes, or that has too many pending turns. It disconnects a client that does not read its
// events.
//
// If a voice session is lost, the gate opens another one with the state that the conversation
// provides. The client's audio is kept in the meantime and sent afterwards. Package httpapi/voice
// authenticates the client and calls [Gate.Serve]. Package ingress creates the gate of a process
// and drains it. The gate stores runs and playback positions only through [Runs].
package voicegate
