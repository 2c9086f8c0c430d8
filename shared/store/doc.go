// Package store is Parley's PostgreSQL access: one package for each domain, plain SQL through sqlx and lib/pq, over
// the pool and transactions of package pg. The organization is a parameter of everything that belongs to one.
//
// The packages of the domains import each other in one direction:
//
//	pg                                            pool, transactions, errors
//	lease, sealdb, limitdb, usagedb, agentdb      over pg alone
//	blobdb, budgetdb, rundb, hookdb               contents; budgets; reading runs; webhooks
//	queuedb, executiondb                          before a claim; from the claim to the end
//	sessiondb, knowledgedb, notificationdb        sessions and erasure; documents; messages
//	accountdb                                     people; organizations and keys
//
// The names end in db because the domains' names are those of variables and of packages that serve the domains.
package store
