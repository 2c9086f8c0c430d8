// Package mutants shows that the tests of the protocol would notice if a rule of it were lost: each mutant is the product with one rule
// left out, and names the tests that must fail then. It is what package model does, for the code that runs.
//
// A mutant is a file with a text replaced, given to `go test -overlay`, so that nothing in the working tree changes; files that are
// embedded, such as migrations, are replaced in the same way. The text must stand in the file exactly once: a mutant whose text is gone
// fails, and with it whoever has changed the line learns that a rule stood there.
//
//	go test ./scripts/mutants                     all of them: a build and a PostgreSQL for each, some minutes
//	go test ./scripts/mutants -run 'Caught/fence' those whose names have that
//	go test -short ./scripts/mutants              that every text is there, every mutant is Go, and every test exists
package mutants
