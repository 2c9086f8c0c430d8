// Package bus is Parley's use of NATS: job messages for dispatched runs through the JetStream
// stream JOBS, and replies, done and cancel notices over core NATS.
//
// No message is essential. A job message may be lost (the sweeper publishes it again), delivered
// twice (the second claim of the run is rejected) or late. A lost reply can be read from the run's
// row. Therefore publishing returns no errors.
//
// Tool calls and voice sessions are requests with replies: the caller detects a lost request or
// reply and tries again.
//
// Each process has one Bus. Subjects, headers and encodings are defined in package contract. The
// parts of the package are in these files:
//
//   - bus.go: the connection, the job stream, replies and notices
//   - jobs.go: receiving job messages
//   - events.go, changes.go, follower.go: watching runs and organizations
//   - tools*.go: tool calls, for callers and workers
//   - voice*.go: voice sessions, for callers and workers
//   - probe.go: the check whether the stream stores messages
package bus
