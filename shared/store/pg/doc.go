// Package pg is the foundation of the packages in shared/store: the connection pool, transactions
// restricted to certain organizations, statements on reserved connections, and PostgreSQL's errors.
//
// Writes run in explicit transactions, or as single statements on reserved connections (Pinned).
// The pool of database/sql is not used for single writes, because it may run such a statement twice
// when a connection breaks.
package pg
