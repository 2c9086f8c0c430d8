// Package pg is what the packages of shared/store share: the pool, transactions that see the rows of certain
// organizations, statements on reserved connections, and PostgreSQL's errors.
//
// Writes run in explicit transactions, or as single statements on reserved connections (Pinned): on a broken
// connection database/sql may run an autocommit statement of the pool twice.
package pg
