// Package process runs the processes that the bench measures, and reads their resource usage.
//
// A Process runs until the bench stops it. A Group contains the processes of one side. Servers are
// the PostgreSQL and the nats-server that all sides of a comparison share, so that no side has
// better servers. PostgreSQL has the settings of Parley's own private server
// (shared/store/pgserver), with fsync and synchronous_commit on. The nats-server has its default
// settings and stores streams on disk.
//
// CPU times, memory and open files are read from /proc. On a system without /proc, CPU times are
// zero and Memory returns an error.
package process
