// Package measure puts load on sides in turn and writes down what it sees.
//
//	for each number of clients, for each round, for each side:
//
//	  checkpoint │ read │ warm-up │ measured │ a second │ nudge │ read
//
// Sides take turns so that whatever else the machine does meets all of them alike.
//
// Commits and syncs of the log are counted by PostgreSQL, but a connection reports its own when it commits, at
// most once a second. So they are read late: when over a second has passed, a nudge of a few requests makes the side's
// connections report. Syncs are counted for the whole server, not by database: the sides run in turn, and
// what another side does while it is idle counts for the round, too. So do the nudge's requests, and what is allocated
// to tell what was allocated.
package measure
