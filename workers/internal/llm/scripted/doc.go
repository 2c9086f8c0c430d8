// Package scripted is a model that plays a script, for tests of what stands above
// models: call by call the answer, the error, or a wait for the caller to give up.
package scripted
