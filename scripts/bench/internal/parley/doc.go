// Package parley is the side that is measured: the production mains of ingress and workers,
// built from this repository, as two processes, with an organization, a key and an echo agent
// made through the HTTP API as any customer would.
//
// All settings are the defaults but those in Overrides.
package parley
