// Package parley is the measured side: the production binaries of ingress and worker, built from
// this repository. It creates an organization, a key and an echo agent through the HTTP API, as a
// customer would.
//
// All settings except Overrides have their default values.
package parley
