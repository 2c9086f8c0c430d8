// Package fenced parses the fenced code blocks of Markdown documents, so that tests can run them.
package fenced

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced code block in a document. Text is the code without the fences and without the
// indentation of the block.
type Block struct {
	Document string // path relative to the repository
	Line     int    // line number of the opening fence
	Language string
	File     string // file name in a comment on the first line of the block, or ""
	Text     string
}

// String returns the block's position as document:line.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Document, b.Line) }

// fileNames matches a comment line that contains only a file name, such as "// github.mjs" or "#
// .github/workflows/x.yml".
var fileNames = regexp.MustCompile(`^(?://|#|--)\s+([\w./-]+\.\w+)\s*$`)

// commands matches the beginning of a line with a shell command.
var commands = regexp.MustCompile(`(?m)^\s*(\$ |(bash|cat|cd|claude|cmp|curl|docker|export|git|helm|kubectl|make|node|np[mx]|parley|pip|psql|python3?|sh|sudo|` +
	`(go (build|get|install|run|test))) )`)

// Command returns the first shell command in a text, or "".
func Command(text string) string { return commands.FindString(text) }

// Read returns a document's blocks. It returns an error for a code block in any other form than a
// fence of backticks at the beginning of a line or list item. No test would run such a block.
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

// reader is the state of Read while it parses a document.
type reader struct {
	document string
	line     int
	blocks   []Block
	open     []string // lines of the open block so far
	fence    string   // fence of the open block; empty between blocks
	indent   string   // indentation of the open block
	blank    bool     // whether the previous line was blank
	item     bool     // whether the current line is in a list, where text may be indented
}

// others matches the beginning of a code block in a form that is not allowed. items matches the
// beginning of a list item.
var (
	others = regexp.MustCompile("^ *(~~~|> *(```|~~~))")
	items  = regexp.MustCompile(`^ *([-*+]|\d+[.)]) `)
)

// read reads the next line of the document.
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
		return errors.New("a block must begin with three backticks, outside a quote")
	case r.blank && !r.item && strings.HasPrefix(line, "    ") && bare != "":
		return errors.New("code must be in a fenced block")
	case bare != "" && (bare == line || items.MatchString(line)):
		r.item = items.MatchString(line)
	}

	r.blank = bare == ""
	return nil
}

// fileName returns the file name in a comment on a block's first line, or on the line after "#!".
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
