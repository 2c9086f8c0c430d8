// Package process runs the processes that the bench measures, and reads what they use.
//
// A Process runs until the bench stops it; a Group contains the processes of one side. Servers are
// the PostgreSQL and the nats-server that all sides of a comparison share, so that no side has
// better servers. PostgreSQL has the settings of Parley's own private server
// (shared/store/pgserver) with fsync and synchronous_commit on; nats-server has its defaults, with
// JetStream on disk.
//
// CPU time, memory and open files are read from /proc. Without /proc CPU times are zero and Memory
// fails.
package process
