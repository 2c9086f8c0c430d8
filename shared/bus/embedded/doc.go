// Package embedded runs a NATS server in this process, with JetStream on disk.
//
// Clients in the same process connect through memory. The server opens a port only if the
// configuration has one, and only on loopback, because clients need no credentials.
//
// The stream's files are synced to disk every two minutes, nats-server's default. A power failure
// may therefore lose acknowledged messages. That does no harm: PostgreSQL has the runs, and the
// sweeper publishes lost job messages again. Syncing each message would compete with PostgreSQL for
// the disk. If only the process is killed, nothing is lost, because the operating system has the
// written data.
//
// The server installs no signal handlers and never exits the process. If it reports a fatal error
// while it starts, Start returns this error. The server's log goes to the caller's log: notices at
// debug, everything else at warn.
package embedded
