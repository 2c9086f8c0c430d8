// Package process runs the processes that the bench measures, and reads their resource usage.
//
// A Process runs until the bench stops it. A Group contains the processes of one of the services
// that the bench compares. These services share one PostgreSQL and one nats-server, the Servers, so
// that none has better servers than another. PostgreSQL has the settings of Parley's own private
// server (shared/store/pgserver), with fsync and synchronous_commit on. The nats-server has its
// default settings and stores streams on disk.
//
// CPU times, memory and open files are read from /proc. On a system without /proc, CPU times are
// zero and Memory returns an error.
package process
