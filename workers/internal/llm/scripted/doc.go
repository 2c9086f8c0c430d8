// Package scripted is a model for tests that plays a script: each call returns the next answer or
// error, or waits until the caller cancels.
package scripted
