// Command words checks the English of the repository. It lists the banned words in documents,
// messages, user interface strings and comments, each with a replacement.
//
//	words [-root DIR]          list the banned words; exit 1 if there are more than the caps allow
//	words -sample SEED         print random comment blocks, documents and strings, for a reader who has not seen the code
//
// It reads the files that git tracks. The rules are in rules.go; CONTRIBUTING.md explains them in
// the section "Glossary".
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// maxInComments is the number of banned words that comments may contain. Other texts may contain
// none.
const maxInComments = 19

func main() {
	root := flag.String("root", ".", "the repository")
	sample := flag.Uint64("sample", 0, "print a random sample drawn with this seed")
	flag.Parse()
	texts, err := collect(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	clean := true
	if *sample != 0 {
		printSample(out, *root, texts, *sample)
	} else {
		clean = report(out, texts)
	}
	if err := out.Flush(); err != nil || !clean {
		os.Exit(1)
	}
}

// report lists the banned words by kind of text. It returns false if a kind of text contains more
// of them than allowed.
func report(out io.Writer, texts []text) bool {
	found := map[kind][]string{}
	for _, t := range texts {
		found[t.kind] = append(found[t.kind], check(t)...)
	}

	clean := true
	for _, k := range slices.Sorted(maps.Keys(found)) {
		limit := 0
		if k == comment {
			limit = maxInComments
		}
		if len(found[k]) <= limit {
			continue
		}
		clean = false
		fmt.Fprintf(out, "words: %d banned words in %ss, at most %d allowed:\n", len(found[k]), k, limit)
		for _, line := range found[k] {
			fmt.Fprintln(out, "  "+line)
		}
	}
	return clean
}
