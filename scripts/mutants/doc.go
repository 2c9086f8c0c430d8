// Package mutants checks that the tests of the protocol notice a missing rule. Each mutant is the
// product without one rule, and names the tests that must then fail. The package scripts/model does
// the same with a model of the protocol.
//
// A mutant replaces a text in a source file. It uses `go test -overlay`, so the working tree does
// not change. Embedded files, such as migrations, are replaced in the same way. The text must occur
// exactly once in the file. If a change removes the text, the mutant's test fails and shows the
// author that the text was a rule.
//
//	go test ./scripts/mutants                     all mutants: a build and a PostgreSQL for each, some minutes
//	go test ./scripts/mutants -run 'Caught/fence' mutants whose name contains fence
//	go test -short ./scripts/mutants              check that all texts and tests exist, without a build
package mutants
