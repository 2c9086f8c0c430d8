// Package fenced reads the fenced blocks of Markdown documents: what documents show, and tests run.
package fenced

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of a document.
type Block struct {
	Document string // relative to the repository
	Line     int    // of the opening fence
	Language string
	File     string // what a comment in its first line names it; empty for none
	Text     string
}

// String says where the block is.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Document, b.Line) }

// fileNames finds the name in a first line that is a comment and nothing but a file's name: "// github.mjs", "# .github/workflows/x.yml".
var fileNames = regexp.MustCompile(`^(?://|#|--)\s+([\w./-]+\.\w+)\s*$`)

// commands finds what looks like one.
var commands = regexp.MustCompile(`(?m)^\s*(\$ |(bash|cat|cd|claude|cmp|curl|docker|export|git|helm|kubectl|make|node|np[mx]|parley|pip|psql|python3?|sh|sudo|` +
	`(go (build|get|install|run|test))) )`)

// Command gives what of a text looks like a command, to be run; empty for none.
func Command(text string) string { return commands.FindString(text) }

// Read reads a document's blocks. Code that is written in another way than with backticks at the beginning of a line or a list's item is
// an error: nobody would run it.
func Read(document, text string) ([]Block, error) {
	r := reader{document: document}
	for line := range strings.SplitSeq(text, "\n") {
		r.line++
		if err := r.read(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", document, r.line, err)
		}
	}
	if r.fence != "" {
		return nil, fmt.Errorf("%s: a block is not closed", r.blocks[len(r.blocks)-1])
	}
	return r.blocks, nil
}

// reader is how far a document has been read.
type reader struct {
	document string
	line     int
	blocks   []Block
	open     []string // lines of the open block
	fence    string   // of the open block; empty between blocks
	indent   string   // of the open block
	blank    bool     // the last line was
	item     bool     // within the items of a list, whose text may stand to the right
}

var (
	others = regexp.MustCompile("^ *(~~~|> *(```|~~~))")
	items  = regexp.MustCompile(`^ *([-*+]|\d+[.)]) `)
)

func (r *reader) read(line string) error {
	bare := strings.TrimLeft(line, " ")
	ticks := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]
	switch {
	case r.fence != "" && bare == r.fence:
		last := &r.blocks[len(r.blocks)-1]
		last.Text, last.File = strings.Join(r.open, "\n")+"\n", fileName(r.open)
		r.fence, r.open = "", nil
	case r.fence != "":
		r.open = append(r.open, strings.TrimPrefix(line, r.indent))
	case len(ticks) >= 3:
		r.fence, r.indent = ticks, line[:len(line)-len(bare)]
		r.blocks = append(r.blocks, Block{Document: r.document, Line: r.line, Language: strings.TrimSpace(bare[len(ticks):])})
	case others.MatchString(line):
		return errors.New("a block begins with three backticks, outside of a quote")
	case r.blank && !r.item && strings.HasPrefix(line, "    ") && bare != "":
		return errors.New("code stands in a fenced block")
	case bare != "" && (bare == line || items.MatchString(line)):
		r.item = items.MatchString(line)
	}
	r.blank = bare == ""
	return nil
}

// fileName gives the name that a comment in a block's first line, or in its second one behind what runs it, says that it is.
func fileName(lines []string) string {
	if len(lines) > 1 && strings.HasPrefix(lines[0], "#!") {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return ""
	}
	if found := fileNames.FindStringSubmatch(lines[0]); found != nil {
		return found[1]
	}
	return ""
}
