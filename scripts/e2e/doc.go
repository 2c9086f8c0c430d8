// Package e2e tests Parley from outside. Its tests start real processes, use them over HTTP as the
// API guide describes, and kill them. `make e2e LONG=1` runs all tests. Without LONG=1, tests that
// call nightly or testkit.Long are skipped. `make e2e TESTFLAGS="-run Chaos"` runs the tests that
// kill a process, whose names begin with TestChaos.
//
// Each test that kills a process, or needs special settings, has its own cluster. The other tests
// are subtests of TestService and share a cluster. Kills at the points of a run are the subject of
// scripts/crashpoints and not of this package. A cluster consists of
//
//	test ──HTTP──▶ ingress, ingress ──▶ PostgreSQL (synced to disk), nats-server ◀── worker, worker
//	  ▲                                                                                 │
//	  └──────────────────── ledger ◀──────────────── OpenAI's protocol ─────────────────┘
//
// Everything except the ledger is a separate process: the binaries of ingress/cmd/ingress and
// workers/cmd/worker, built once, and the servers that shared/testkit starts.
//
// The ledger is a loopback server in the test. Agents use the model "openai/ledger", and the
// workers' OPENAI_BASE_URL is the ledger's URL. The message selects the ledger's behaviour ("sleep
// 5s: hello", "fault hang*1: hello"; see shared/testkit/openaistub). The ledger records the
// beginning and end of each model call. This record shows a test whether and how often a run was
// executed, in which order, and by how many workers simultaneously. The test does not have to rely
// on the processes under test.
//
// Voice tests use scripts/internal/realtimeclient and a worker that speaks with espeak-ng.
// espeak-ng produces the same samples for the same text, so a test can check that no audio is lost
// when a process dies. The listener, another loopback server in the test, transcribes the user's
// speech: it records the audio and returns scripted transcripts.
//
// The tests of `parley up` start the program with a private PostgreSQL and an embedded NATS, as a
// user does who has just cloned the repository.
//
// Tests do not sleep. The function eventually polls a condition, and fails the test if the
// condition does not hold in time. When a test fails, testkit prints the output of the test's
// processes. Chaos tests spend most of their time waiting for the 30 s lease of a dead worker, so
// more tests run in parallel than the machine has cores.
//
// PARLEY_E2E_LONG sets the duration of the load in TestService/client_leaves, for example 10m. The
// default is 8s.
package e2e
