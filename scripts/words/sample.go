package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// printSample prints a random sample for a reader to judge: 30 comment blocks, 10 documents, and 40
// interface strings and messages. The seed and the commit determine the sample.
func printSample(out io.Writer, root string, texts []text, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample, not a secret
	for _, group := range []struct {
		title string
		size  int
		fits  func(text) bool
	}{
		{"comment blocks", 30, func(t text) bool { return t.kind == comment && words(t) >= 8 }},
		{"documents", 10, func(t text) bool { return strings.HasSuffix(t.file, ".md") && words(t) >= 100 }},
		{"interface strings and messages", 40, func(t text) bool {
			inTests := strings.Contains(t.file, "/probes/") // programs that only tests run in sandboxes
			return (t.kind == ui || t.kind == message) && !inTests && words(t) >= 4 && !code.MatchString(t.content)
		}},
	} {
		candidates := slices.DeleteFunc(slices.Clone(texts), func(t text) bool { return !group.fits(t) })
		random.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		fmt.Fprintf(out, "# %s\n\n", group.title)
		for i, t := range candidates[:min(group.size, len(candidates))] {
			if t.kind == document {
				fmt.Fprintf(out, "%d. %s\n", i+1, t.file) // the reader opens the whole document
				continue
			}
			fmt.Fprintf(out, "%d. (%s:%d)\n%s%s\n\n", i+1, t.file, t.line, declared(root, t), strings.TrimSpace(t.content))
		}
		fmt.Fprintln(out)
	}
}

// declared returns the code before a comment on the same line, because such a comment is a phrase
// about the code. It returns "" for other texts.
func declared(root string, t text) string {
	content, err := os.ReadFile(filepath.Join(root, t.file))
	if t.kind != comment || err != nil {
		return ""
	}
	lines := strings.Split(string(content), "\n")
	first, _, _ := strings.Cut(strings.TrimSpace(t.content), "\n")
	before, _, _ := strings.Cut(lines[t.line-1], first)
	if before = strings.TrimSpace(before); before == "" {
		return ""
	}
	return before + " "
}

// code matches strings that contain code, or the path of an icon, instead of a sentence.
var code = regexp.MustCompile(`[{}=<>;$\\|]|\w\(|%w|^\(|^\w+:"|…\) : |\d, \w+, |(?:\w+, ){8}|\?\?|&&|\bWords\.|\b(signal|text): \w|\d[chvlz]-?[\d.]`)

// words returns the number of words in a text.
func words(t text) int { return len(strings.Fields(t.content)) }
