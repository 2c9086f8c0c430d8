// Package python runs Python programs, each in its own sandbox. A few sandboxes are kept ready,
// with a started interpreter that waits for its only program.
package python
