package pgserver

import "errors"

// ErrNotInstalled means that no usable PostgreSQL server was found.
var ErrNotInstalled = errors.New("no PostgreSQL server found")

// ErrInUse means that another process supervises the directory.
var ErrInUse = errors.New("the PostgreSQL directory is in use")

// ErrDied means that the server ended although it was not stopped.
var ErrDied = errors.New("PostgreSQL exited unexpectedly")
