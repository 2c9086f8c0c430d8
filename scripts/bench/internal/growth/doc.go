// Package growth measures what a run costs in a database that has seen many: two deployments of Parley on one PostgreSQL, each with a
// database and a nats-server of its own, one with few finished runs of one organization and one with many of many. They are measured in
// turn, so that what else happens on the machine happens to both. And it measures what callers notice of it while the sweeper erases many
// runs whose retention is over.
//
// The runs are not carried out but filled in by SQL, as finished ones stand in the tables: Fill says how, and its test holds them
// against one that was carried out.
package growth
