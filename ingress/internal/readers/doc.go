// Package readers cancels the runs that no client reads any more.
//
// Users of other protocols (OpenAI, AI SDK, AG-UI, MCP) expect that closing the connection stops
// the answer. A request in such a protocol has a Reader. If its client leaves before the run
// has finished, the run is watched until it is cancelled or read again:
//
//	Reader ──client leaves───► watched ──no reader for the grace period──► cancelled
//	   ▲                        │ │ └────a message that waits for it─────► cancelled at once
//	   └──a retry attaches──────┘ └──────the run has finished────────────► forgotten
//
// The ingress whose client left watches the run. A reader may return at any ingress, so ingresses
// exchange messages over the bus: the watching ingress asks every second who reads its runs. It
// cancels a run only if it has received its own question after the grace period and no ingress has
// answered. A run is not cancelled while the bus is unreachable, or after the ingress that watches
// the run has died. If only the link between two servers of the bus is down, a run may be cancelled
// although it has a reader on the other side of the link.
//
// Before a run is cancelled, the text that its clients received is stored. The session's history
// contains this text as the answer, as it does for an interrupted spoken answer.
package readers
