// Package python runs Python programs, each in a sandbox of its own. A few sandboxes are kept ready, with the interpreter
// started and waiting for the one program that it will run.
package python
