// Package parley runs Parley for the benchmarks: the production binaries of the ingress and the
// worker, built from this repository. It creates an organization, a key and an echo agent through
// the HTTP API, as a customer would.
//
// All settings have their default values except those in Overrides.
package parley
