package pgserver

import "errors"

// ErrNotInstalled is returned when no PostgreSQL server that can be used was found.
var ErrNotInstalled = errors.New("no PostgreSQL server found")

// ErrInUse is returned by Start when another process supervises the directory.
var ErrInUse = errors.New("the PostgreSQL directory is in use")

// ErrDied is the error of a server that ended without having been stopped.
var ErrDied = errors.New("PostgreSQL exited unexpectedly")
