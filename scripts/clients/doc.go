// Package clients tests Parley with real clients: the packaged SDKs, and third-party clients from npm, each against a real
// `parley up`.
//
//	test ──▶ node npm/<name>.mjs, python ──▶ (faultproxy) ──▶ parley up ──▶ ledger: counts effects by their keys
//	                                                               └──────▶ model "openai/stub": scripted answers
//
// The tests share one Parley, one ledger and one installation of the npm packages, which the first test creates (env_test.go).
// If the machine lacks a program, a test skips with "NOT TESTED: … because …".
//
// Clients of the Realtime API require TLS. They use a TLS proxy in front of the service, and get its certificate.
//
// A client's test is <name>_test.go, and its script npm/<name>.mjs. The script reads PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID
// and ORGANIZATION_ID, prints the values that its test checks, and exits with a code other than 0 if something is wrong.
package clients
