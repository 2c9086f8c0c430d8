// Package offload runs functions on pooled goroutines, so that the caller's stack stays small.
//
// The stack of a goroutine doubles when a function needs more of it. The garbage collector halves a
// stack only while less than a quarter of it is used. Thousands of goroutines wait for runs, and
// each keeps its stack during the wait. If the functions before the wait run on other goroutines,
// the stack of the waiting goroutine never grows.
package offload
