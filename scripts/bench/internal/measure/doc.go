// Package measure puts load on sides in turn and writes down what it sees.
//
//	for each number of clients, for each round, for each side:
//
//	  checkpoint │ nudge │ read │ warm-up │ measured │ read
//	             └ closes the side's round before └ opens this one
//
// Sides take turns so that whatever else the machine does meets all of them alike.
//
// Commits are counted by PostgreSQL, but a connection reports its own when it commits, at
// most once a second. So a round's count is read late: before the side's next round, when
// over a second has passed, a nudge of a few requests makes all of its connections report.
// What a side commits while it is idle counts for its round, too.
package measure
