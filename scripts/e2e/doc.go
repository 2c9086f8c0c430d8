// Package e2e tests Parley from outside: real processes, driven over HTTP as the API guide
// says, and killed. `make e2e` runs all of it, `make e2e TESTFLAGS="-run Chaos"` the tests named TestChaos…,
// which crash something.
//
// Each test has a cluster of its own, so that it can crash any part of it; those that crash
// nothing share one. A cluster is
//
//	test ──HTTP──▶ ingress, ingress ──▶ PostgreSQL (synced to disk), nats-server ◀── worker, worker
//	  ▲                                                                                 │
//	  └──────────────────── ledger ◀──────────────── OpenAI's protocol ─────────────────┘
//
// where everything but the ledger is a process of its own: the binaries of ingress/cmd/ingress
// and workers/cmd/worker, built once, and the servers that shared/testkit starts. Agents name
// the model "openai/ledger", and the workers' OPENAI_BASE_URL is the ledger, a loopback server
// in the test itself: the message says how it behaves ("sleep 5s: hello", "fault hang*1:
// hello"; see shared/testkit/openaistub), and it keeps when each model call came and ended.
// It is how a test tells that a run was carried out, how often, in which order and by how many
// workers at once: no process under test is asked.
//
// Conversations by voice are held by scripts/internal/realtimeclient with a worker that speaks with espeak-ng, which says the same
// text with the same samples every time: that is how a test tells that none was lost when something died. What is said to it goes to
// a listener, a loopback server in the test, that keeps it and understands what the test says.
//
// The tests of `parley up` start that binary instead, with a private PostgreSQL and an
// embedded NATS, as somebody does who has just cloned the repository.
//
// Nothing sleeps: eventually polls a condition and fails the test at its deadline. When a test
// fails, testkit shows what each of its processes has written. Most of a chaos test's time is
// spent waiting for the 30 s of a dead worker's lease, so the tests run side by side, more of
// them than there are cores.
//
// PARLEY_E2E_LONG sets how long the run of TestService/client_leaves takes, 8s by default:
// PARLEY_E2E_LONG=10m shows a run of ten minutes.
package e2e
