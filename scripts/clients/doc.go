// Package clients tests Parley with real clients: the packaged SDKs, and third-party clients from
// npm, each against a real `parley up`.
//
//	test ──▶ node npm/<name>.mjs, python ──▶ (faultproxy) ──▶ parley up ──▶ ledger: counts effects by their keys
//	                                                               └──────▶ model "openai/stub": scripted answers
//
// The tests share one Parley, one ledger and one installation of the npm packages, which the first
// test creates (env_test.go). If the machine lacks a program, the tests that need it are skipped
// with a message that begins with "NOT TESTED:".
//
// Some steps do not depend on the service: the builds of the packages, and the type checks and unit
// tests of the SDKs. They run once on a machine for the same inputs (cache_test.go). With -short,
// only one of the blocks with `parley prove --kill` runs; the test prints the seed of the choice.
//
// Each test records which features its client can use (matrix_test.go). The tables of
// docs/clients.md contain these outcomes, and a test fails if its own outcome differs.
//
// Clients of the Realtime API require TLS. Their tests therefore start a TLS proxy in front of the
// service, and the clients trust the proxy's certificate.
//
// The test for a client is <name>_test.go, and its script npm/<name>.mjs. The script reads
// PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID and ORGANIZATION_ID, and prints the values that the
// test checks. If one of the script's own checks fails, its exit status is not 0.
package clients
