// Package client calls a running Parley over HTTP, given its URL and an API key.
//
// Safe requests are retried after a lost connection and after responses that ask for it. An
// interrupted event stream resumes after the last event that was read.
package client
