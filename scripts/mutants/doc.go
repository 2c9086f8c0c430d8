// Package mutants checks that the tests of the protocol notice a missing rule. Each mutant is the product without one rule, and
// names the tests that must then fail. Package model does the same with a model of the protocol.
//
// A mutant replaces a text in a file by means of `go test -overlay`, so the working tree stays unchanged. Embedded files such as
// migrations are replaced in the same way. The text must occur exactly once in the file. If the text has disappeared, the test
// of the mutant fails, which reminds the author of the change that the text was a rule.
//
//	go test ./scripts/mutants                     all mutants: a build and a PostgreSQL for each, some minutes
//	go test ./scripts/mutants -run 'Caught/fence' mutants whose name contains fence
//	go test -short ./scripts/mutants              check that all texts and tests exist, without a build
package mutants
