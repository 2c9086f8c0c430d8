// Package transfer limits bodies that take a long time to receive or send: document uploads,
// webhook deliveries, and file downloads.
//
// A Limiter has slots per credential, per organization, per client address and in total. The last
// quarter of the slots is for newcomers, whose organization and network have no slot yet. If no
// slot is free, a new transfer takes the slot of a transfer whose client is too slow. The pace that
// a client must keep rises as the slots fill:
//
//	Enter ──► waits for its client ◄──► moves bytes ──► Leave
//	                  │ slower than the pace, and another transfer needs the slot
//	                  ▼
//	               aborted
//
// Time that the service itself takes does not count against the client. Receive begins a body of
// unknown length in the limiter for small bodies. As the body grows, Receive moves it to the next
// limiter. A few large bodies then do not take the slots of many small bodies. Only slots of this
// process are counted. The policies are in file policy.go.
package transfer
