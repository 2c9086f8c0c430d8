// Package mutants checks that the protocol's tests notice a missing rule. Each mutant is the product with one rule omitted, and
// names the tests that must fail then. Package model does the same with a model of the protocol.
//
// A mutant replaces a text in a file by means of `go test -overlay`, so the working tree stays unchanged. Embedded files such as
// migrations are replaced in the same way. The text must occur exactly once in the file. A mutant whose text has disappeared
// fails, which reminds the author of the change that the line contained a rule.
//
//	go test ./scripts/mutants                     all mutants: a build and a PostgreSQL for each, some minutes
//	go test ./scripts/mutants -run 'Caught/fence' mutants whose name contains fence
//	go test -short ./scripts/mutants              check without a build that all texts and tests exist
package mutants
