// Package bus is Parley's use of NATS: doorbells for dispatched runs through the
// JetStream stream JOBS, and replies, done and cancel notices over core NATS.
//
// Nothing here is relied upon: a doorbell may be lost (the sweeper rings again), rung
// twice (the claim refuses the second) or late; a reply that is lost is found in the
// run's row. So publishing reports no errors to those who accepted or finished a run.
//
// Calls of tools and lines of voice have answers: whoever makes them learns when they are lost, and makes them anew.
package bus
