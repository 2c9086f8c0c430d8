// Package code measures calls of codeExecution: a tool worker on its own, asked over the bus as an agent worker asks it,
// beside a bare bubblewrap with Python that does the same.
package code
