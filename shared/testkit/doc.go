// Package testkit provides real databases, NATS servers and processes for tests.
//
// A server is chosen in this order:
//
//	TEST_DATABASE_URL, TEST_NATS_URL     a running server
//	the build tag containers             a container, shared by all tests of the process
//	otherwise                            a private server, started from installed binaries
//
// Postgres gives each test an empty, migrated database: the migrations run once in a template,
// which is then copied. The private server does not sync to disk. Tests that kill servers use
// PostgresProcess, whose server syncs to disk. NATS gives each test its own server, or exclusive
// use of a shared one.
//
// Nothing outlives its test, and nothing outlives the test process, even if the process is killed
// or times out. Each test stops what it started in a Cleanup. All files are below one temporary
// directory, and a small shell process watches the test process through a pipe:
//
//	test process ── ends for any reason ──▶ pipe closes ──▶ its PostgreSQL servers are stopped, all processes
//	with its mark in the environment are killed, its containers and the directory are removed
//
// No package needs a TestMain for this.
package testkit
