// Package bus is Parley's use of NATS: job messages for dispatched runs through the JetStream
// stream JOBS, and replies, done and cancel notices over core NATS.
//
// No message is essential. A job message may be lost (the sweeper publishes it again), delivered
// twice (the second claim of the run is rejected) or late. A lost reply can be read from the run's
// row. Therefore publishing returns no errors.
//
// Tool calls and voice sessions are requests with replies: the caller detects a lost request or
// reply and tries again.
package bus
