// Package fenced reads the fenced blocks of Markdown documents: what documents show, and tests run.
package fenced

import (
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

// Read reads a document's blocks.
func Read(document, text string) ([]Block, error) {
	var (
		blocks []Block
		lines  []string
		fence  string // of the open block, with its indentation
		indent string
		n      int
	)
	for line := range strings.SplitSeq(text, "\n") {
		n++
		bare := strings.TrimLeft(line, " ")
		switch ticks := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]; {
		case fence == "" && len(ticks) >= 3:
			fence, indent = ticks, line[:len(line)-len(bare)]
			blocks = append(blocks, Block{Document: document, Line: n, Language: strings.TrimSpace(bare[len(ticks):])})
		case fence != "" && bare == fence:
			last := &blocks[len(blocks)-1]
			last.Text = strings.Join(lines, "\n") + "\n"
			last.File = fileName(lines)
			fence, lines = "", nil
		case fence != "":
			lines = append(lines, strings.TrimPrefix(line, indent))
		}
	}
	if fence != "" {
		return nil, fmt.Errorf("%s: a block is not closed", blocks[len(blocks)-1])
	}
	return blocks, nil
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
