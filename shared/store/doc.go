// Package store is Parley's PostgreSQL access: one file per record, plain SQL through
// sqlx and lib/pq. The organization is a parameter of everything that belongs to one.
//
// Writes run in explicit transactions, or as single statements on reserved connections
// (pinned.go): on a broken connection database/sql may run an autocommit statement of the
// pool twice. Statements that many requests share take whole batches (accept.go, claim.go,
// finish.go) and lock rows in the order of their ids.
package store
