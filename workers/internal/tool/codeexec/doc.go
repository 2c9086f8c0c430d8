// Package codeexec runs an agent's Python code in a sandbox.
//
//	arguments ─► session files, documents ─► interpreter: a new sandbox ─► files stored ─► output, truncated for the model
//
// Code and file names come from a model and have no effect outside the sandbox. Files are looked up
// only in the run's session, and documents only among those that the agent may read. All other
// files and documents are reported as unknown. A document is recorded as given to the run before
// its content enters the sandbox.
//
// A call has no effect except the files that it stores. They replace the files of an earlier
// attempt at the same call, so a call can be repeated.
package codeexec
