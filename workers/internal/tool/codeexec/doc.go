// Package codeexec runs an agent's Python in a sandbox.
//
//	arguments ─► files of the session, documents ─► interpreter: a new sandbox ─► files kept ─► what was printed, cut to what a model reads
//
// What code and which names of files a model writes counts for nothing beyond its sandbox: files are looked for among those
// of the run's session, and documents among those that the agent may read, so all others are as unknown as those that never were. A
// document is noted as given to the run before its content is in the sandbox. A call changes nothing but the files
// that it leaves, in place of what an earlier try at it has left; so it may be made again.
package codeexec
