// Package servers runs the PostgreSQL and the nats-server that both sides of a comparison
// share: one of each, so that neither side has the better one. Each side has a database and a
// stream of its own.
//
// PostgreSQL stands on the settings of Parley's own private server (shared/store/pgserver),
// with fsync and synchronous_commit on, and is reached over TCP; nats-server has its defaults,
// with JetStream on disk.
package servers
