//go:build !containers

package testkit

import "os"

// configuredPostgres returns the URL of the PostgreSQL server that the tests share, or "" if each
// test process starts a private server.
func configuredPostgres() (string, error) { return os.Getenv("TEST_DATABASE_URL"), nil } //nolint:unparam // containers fail

// configuredNATS returns the URL of the NATS server that the tests share, or "" if each test starts
// a private server.
func configuredNATS() (string, error) { return os.Getenv("TEST_NATS_URL"), nil } //nolint:unparam // the same
