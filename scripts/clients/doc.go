// Package clients tests Parley with the clients that developers have: the SDKs as they are packaged, and other people's clients from npm,
// each against a real `parley up`.
//
//	test ──▶ node npm/<name>.mjs, python ──▶ (faultproxy) ──▶ parley up ──▶ ledger: counts effects by their keys
//	                                                               └──────▶ model "openai/stub": answers as a test says
//
// Parley, the ledger and the packages from npm are there once for the package, for the first test that asks (stage_test.go). What a machine
// lacks is said: the test skips with "NOT TESTED: … because …".
//
// Clients of the Realtime API insist on TLS: theirs is a proxy in front of the service, whose certificate they are given.
//
// A client's test is <name>_test.go beside npm/<name>.mjs. The script reads PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID and
// ORGANIZATION_ID, prints what its test looks at, and ends with a code other than 0 when something is not as it should be.
package clients
