// Package voicegate moves a voice connection's frames between its WebSocket, a voice worker and its runs.
//
//	client ⇄ reader, writer ⇄ owner ⇄ line ⇄ voice worker
//	                            │
//	                            └─ turns: runs begun, followed, cancelled, and what was heard of them
//
// One goroutine owns a connection: it alone asks the conversation (package realtime) what follows from what came, and has that
// carried out. The others read, write, open lines, begin and follow runs, and wait for nothing but their own part, so that a slow
// client, worker or database holds up nobody else, and not the owner either: what is told by a worker takes no longer than its way
// through two channels.
//
// Everything that may pile up is bounded. A client that sends faster than the worker listens, or has more begun than can be begun,
// is not read from until that is over; one that does not read what it is sent is closed when its queue is full.
//
// A line that is lost is opened anew, with what the conversation says that another worker must know. Until then the client's audio
// is kept, and follows.
package voicegate
