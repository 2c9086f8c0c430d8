package markup

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"parley/workers/internal/document"
)

// These limits keep the time for parsing Markdown linear. The parser compares each delimiter in a
// block with all previous delimiters. It scans the rest of the line for each link, and searches the
// list of footnotes for each footnote mark. Ordinary texts are far below the limits.
const (
	maxSteps       = 100_000_000 // sum of comparisons of delimiters and bytes scanned for links; so many steps take about half a second
	maxDestination = 4096        // bytes of a link's address
	maxFootnotes   = 50_000_000  // footnote marks multiplied by footnotes; so many comparisons take about a second
	maxTableCells  = 1_000_000   // cells of tables, including cells that are missing at the ends of rows
	maxPipes       = 10_000      // escaped pipes
	maxDefinitions = 200         // link definitions in consecutive lines
)

// bounded changes a text so that it can be parsed in linear time. It returns an error if the
// nesting or the tables of the text exceed the limits. A text within the limits is returned
// unchanged.
func bounded(text string) (string, error) {
	if nested.MatchString(text) || tooDeep(text) {
		return "", &document.Failure{
			Code: document.TooLarge, Message: "Quotes, lists or brackets in the document are nested too deeply.",
		}
	}

	if tooWide(text) {
		return "", &document.Failure{
			Code: document.TooLarge, Message: "The tables in the document have more cells than the maximum.",
		}
	}

	// Many escaped pipes would make parsing slow, so slashes replace them.
	if strings.Count(text, `\|`) > maxPipes {
		text = strings.ReplaceAll(text, `\|`, "/")
	}
	return separateDefinitions(text), nil
}

// tooWide reports whether the tables of a text have too many cells. Cells that are missing in a row
// are counted, because the parser adds them. A table begins with a delimiter row, such as
// "|---|---|", and ends at an empty line.
func tooWide(text string) bool {
	columns, cells := 0, 0
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, " \t>")
		if strings.TrimSpace(line) == "" {
			columns = 0
			continue
		}
		if strings.Contains(line, "|") && strings.Trim(line, " \t|:-\n") == "" {
			columns = max(columns, strings.Count(line, "|")+1)
		}
		if cells += columns; cells > maxTableCells {
			return true
		}
	}
	return false
}

// separateDefinitions inserts empty lines into sequences of more than maxDefinitions link
// definitions. The definitions keep their meaning. The parser's time grows quadratically with the
// number of definitions in one paragraph.
func separateDefinitions(text string) string {
	if strings.Count(text, "\n[")+strings.Count(text, " [")+strings.Count(text, ">[") <= maxDefinitions {
		return text
	}
	var b strings.Builder
	together := 0
	for line := range strings.Lines(text) {
		switch start := strings.TrimLeft(line, " \t>"); {
		case strings.TrimSpace(start) == "":
			together = 0
		case start[0] == '[':
			if together++; together > maxDefinitions {
				b.WriteByte('\n')
				together = 1
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// footnoted reports whether footnotes should be parsed. A text with too many footnotes is parsed
// without them.
func footnoted(text string) bool {
	return strings.Count(text, "[^")*strings.Count(text, "]:") <= maxFootnotes
}

// bounds is an inline parser that limits the time spent on a block. When the limit is reached, it
// treats delimiters and brackets as plain text. It runs before the parsers for emphasis and links.
// Each conversion has its own value.
type bounds struct {
	steps int      // cost so far, for the whole document
	block ast.Node // the block that is being parsed
	marks int      // number of marks in the block so far
}

// Trigger returns the characters with which emphasis, links and images begin or end.
func (*bounds) Trigger() []byte { return []byte("*_~[]!") }

// Parse returns nil to pass the character to the parsers that follow. Beyond the limits, it returns
// the delimiter as a plain text node, and no other parser sees it.
func (b *bounds) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	if b.block != parent {
		b.block, b.marks = parent, 0
	}

	b.marks++
	far := false
	switch line[0] {
	case '*', '_', '~':
		b.steps += b.marks
	case ']':
		b.steps += b.marks + parent.Lines().Len()
		if len(line) > 1 && line[1] == '(' && b.steps <= maxSteps {
			length := destination(line[2:])
			b.steps += length
			far = length >= maxDestination
		}
	}

	if b.steps <= maxSteps && !far {
		return nil
	}
	// Equal delimiters in sequence are one mark, so the whole sequence becomes plain text.
	n := 1
	for line[0] != ']' && n < len(line) && line[n] == line[0] {
		n++
	}

	block.Advance(n)
	return ast.NewTextSegment(segment.WithStop(segment.Start + n))
}

// destination returns how many bytes the link parser will scan for the end of a link's address, up
// to maxDestination. The argument line begins after the opening parenthesis.
func destination(line []byte) int {
	line = line[:min(len(line), maxDestination)]
	angled, opened := false, 0
	for i, c := range line {
		switch {
		case i == 0 && c == '<':
			angled = true
		case angled && c == '>', !angled && (c == ' ' || c == '\n' || c == '\t'):
			return i
		case !angled && c == '(':
			opened++
		case !angled && c == ')':
			if opened--; opened < 0 {
				return i
			}
		}
	}
	return len(line)
}
