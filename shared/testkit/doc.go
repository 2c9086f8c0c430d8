// Package testkit gives tests the real things: databases, NATS servers and processes.
//
// Where a server comes from, in this order:
//
//	TEST_DATABASE_URL, TEST_NATS_URL     a server that runs already
//	the build tag containers             one in a container, for all tests of the process
//	otherwise                            a private one, started from found binaries
//
// Postgres gives each test an empty, migrated database of its own: the migrations run once
// into a template, which then is copied. The private server does not sync to disk; tests
// that kill servers use PostgresProcess, which does. NATS gives each test a server of its
// own, or, where there is but one, keeps the tests out of each other's way.
//
// Nothing outlives its test, and nothing the test process, even if that is killed or times
// out: what a test starts is ended by its Cleanup, and everything lies below one temporary
// directory which a small shell process watches over. It holds the other end of a pipe:
//
//	test process ── ends, however ──▶ pipe closes ──▶ its PostgreSQLs are stopped, whatever
//	carries its mark in the environment is killed, its containers and the directory are removed
//
// No TestMain is needed for any of it.
package testkit
