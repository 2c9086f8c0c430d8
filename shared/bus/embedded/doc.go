// Package embedded runs a NATS server inside this process, with JetStream on disk.
//
// Clients of the same process connect through memory; a port is opened on request only,
// and on loopback only, for it asks for no credentials.
//
// The stream's files are synced to disk every two minutes, nats-server's default: a power
// failure may take acknowledged messages with it. Nothing rests on them - PostgreSQL has
// the runs, and the sweeper rings again for those whose doorbell is lost - and syncing
// each one would contend with PostgreSQL for the same disk. A killed process loses
// nothing, for the system still has what was written.
//
// The server installs no signal handlers and never exits the process: what it calls fatal
// becomes Start's error. Its log goes to the caller's: notices at debug, the rest at warn.
package embedded
