// Package scripted contains a model for tests that follows a script. Each call returns the next
// answer or error of the script, or waits until the caller cancels it.
package scripted
