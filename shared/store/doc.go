// Package store is Parley's PostgreSQL access. Each domain has one package with plain SQL through
// sqlx and lib/pq; package pg provides the connection pool and the transactions. Every function
// that reads or writes rows of an organization takes the organization as a parameter.
//
// The domain packages import each other in one direction:
//
//	pg                                            pool, transactions, errors
//	lease, sealdb, limitdb, usagedb, agentdb,
//	overviewdb                                        import only pg
//	blobdb, budgetdb, rundb, hookdb               contents; budgets; reading runs; webhooks
//	queuedb, executiondb                          a run before its claim; from the claim to its result
//	sessiondb, knowledgedb, notificationdb        sessions and erasure; documents; notifications
//	accountdb                                     users; organizations and keys
//
// The package names end in db because the bare domain names are already used by variables and
// by the packages that serve the domains.
package store
