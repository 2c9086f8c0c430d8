// Package parley is the side that is measured: the production binaries of ingress and worker, built from this repository and run as
// processes, with an organization, a key and an echo agent that are created through the HTTP API as a customer would.
//
// All settings are the defaults except those in Overrides.
package parley
