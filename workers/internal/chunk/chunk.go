package chunk

import (
	"slices"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// Limits say how long chunks become, in code points; what is not positive becomes the default.
type Limits struct {
	Target int // what chunks are filled to
	Max    int // what none exceeds
}

// The limits that are used where none are given: a passage of which several fit in a prompt, and which still says one thing.
const (
	defaultTarget = 1000
	maxDefault    = 1600
)

// Chunker makes the chunks of one document.
type Chunker struct {
	limits Limits
	number int    // of the next chunk
	page   page   // the one that is being read
	path   []mark // the headings above what comes next
	serial int    // of the next heading
	head   []string
	draft  *draft // the chunk that is being filled; nil when none is
	held   *draft // a small section that the next one may join
	done   []domain.Passage
}

// page is where the reading stands on a page.
type page struct {
	number int
	at     int           // code points of its text so far
	last   document.Kind // of the block before; "" when there was none
}

// mark is a heading above a chunk. Two headings of the same words are told apart by their numbers.
type mark struct {
	serial, level int
	text          string
}

// New returns a chunker for one document.
func New(limits Limits) *Chunker {
	if limits.Target <= 0 {
		limits.Target = defaultTarget
	}
	if limits.Max <= 0 {
		limits.Max = max(maxDefault, limits.Target)
	}
	limits.Target = min(limits.Target, limits.Max)
	return &Chunker{limits: limits}
}

// Add takes the next block and returns the chunks that it finished, which are often none.
func (c *Chunker) Add(block document.Block) []domain.Passage {
	if blank(block.Text) {
		return nil
	}
	if block.Page != c.page.number {
		c.finish(true)
		c.release()
		c.page = page{number: block.Page}
	}
	if block.Kind == document.Heading {
		c.enter(block)
	}
	c.table(block)
	c.separate(block.Kind)
	c.fill(block)
	return c.take()
}

// Close returns what is left.
func (c *Chunker) Close() []domain.Passage {
	c.finish(true)
	c.release()
	return c.take()
}

func (c *Chunker) take() []domain.Passage {
	done := c.done
	c.done = nil
	return done
}

// enter begins the section of a heading. Headings with nothing between them stay together, down the path: a chunk that is only
// the name of a chapter says nothing.
func (c *Chunker) enter(block document.Block) {
	level := min(max(block.Level, 1), 6)
	kept := len(c.path)
	for kept > 0 && c.path[kept-1].level >= level {
		kept--
	}
	below := kept == len(c.path)
	c.serial++
	// A new array: drafts keep the old one.
	c.path = append(c.path[:kept:kept], mark{serial: c.serial, level: level, text: name(block.Text)})
	size := utf8.RuneCountInString(block.Text)
	if c.draft != nil && below && !c.draft.body && c.draft.size+2+size <= c.limits.Target {
		c.draft.path, c.draft.section = c.path, c.path
		return
	}
	c.finish(true)
}

// table keeps the rows that name the columns while their table lasts, pages on end.
func (c *Chunker) table(block document.Block) {
	switch {
	case block.Kind != document.Row:
		c.head = nil
	case block.Head && c.page.last != document.Row:
		c.head = []string{block.Text}
	case block.Head && len(c.head) < 3:
		c.head = append(slices.Clip(c.head), block.Text)
	}
}

// separate steps over what stands between two blocks of a page.
func (c *Chunker) separate(kind document.Kind) {
	between := "\n\n"
	switch {
	case c.page.last == "":
		between = ""
	case c.page.last == kind && (kind == document.Row || kind == document.Item):
		between = "\n"
	}
	c.page.last = kind
	if c.draft != nil {
		c.draft.append(between, len(between))
	}
	c.page.at += len(between)
}
