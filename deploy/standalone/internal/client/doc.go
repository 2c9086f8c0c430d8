// Package client calls a running Parley over HTTP, as any program would that has an address and a key.
//
// Requests that may be sent again are: after a connection that broke, and after answers that say to come back later.
// A stream of events that breaks off is resumed behind the last event that was read.
package client
