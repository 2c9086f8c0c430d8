package markup

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"parley/workers/internal/document"
)

// The parser of Markdown compares each delimiter of a block with those before it, scans the rest of a line for each link, and looks
// each footnote up in the list of all. These bounds keep that linear; no text that people write comes near them.
const (
	maxSteps       = 100_000_000 // comparisons of delimiters and links: about half a second
	maxDestination = 4096        // bytes of a link's address
	maxFootnotes   = 50_000_000  // marks of footnotes times footnotes: about a second
	maxTableCells  = 1_000_000   // with those that are missing at the ends of rows
	maxPipes       = 10_000      // escaped pipes
	maxDefinitions = 200         // of links, in lines without an empty one between them
)

// bounded brings text into a form that is parsed in linear time. It fails for nesting and tables that no text has.
func bounded(text string) (string, error) {
	if nested.MatchString(text) || tooDeep(text) {
		return "", &document.Failure{
			Code: document.TooLarge, Message: "Quotes, lists or brackets of the document are nested too deeply.",
		}
	}
	if tooWide(text) {
		return "", &document.Failure{
			Code: document.TooLarge, Message: "The tables of the document have more cells than the maximum.",
		}
	}
	if strings.Count(text, `\|`) > maxPipes {
		text = strings.ReplaceAll(text, `\|`, "/")
	}
	return apart(text), nil
}

// tooWide reports tables with too many cells: each row has as many as the line below the first one says.
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

// apart puts an empty line between definitions of links where very many of them stand together. It changes nothing of their meaning.
func apart(text string) string {
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

// footnoted reports whether footnotes are to be told from other text.
func footnoted(text string) bool {
	return strings.Count(text, "[^")*strings.Count(text, "]:") <= maxFootnotes
}

// bounds takes delimiters and brackets as text once they have cost too much. It stands before the parsers of emphasis and links, and
// leaves everything else to them.
type bounds struct {
	steps int      // of the document
	block ast.Node // the one that is being parsed
	marks int      // of the block, so far
}

// Trigger gives the characters that begin or end emphasis, links and images.
func (*bounds) Trigger() []byte { return []byte("*_~[]!") }

// Parse returns nil where the parsers after it may go on.
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
	n := 1
	for line[0] != ']' && n < len(line) && line[n] == line[0] {
		n++
	}
	block.Advance(n)
	return ast.NewTextSegment(segment.WithStop(segment.Start + n))
}

// destination is how many bytes are looked at to find the end of a link's address, maxDestination at most.
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
