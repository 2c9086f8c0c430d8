package chunk

import (
	"slices"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// Limits bound the length of chunks in code points. A value of zero or less selects the default. A
// target above the maximum is lowered to the maximum.
type Limits struct {
	Target int // intended length of a chunk
	Max    int // maximum length of a chunk
}

// These are the default limits. Several chunks of this length fit into a prompt, and each chunk
// usually has a single topic.
const (
	defaultTarget = 1000
	maxDefault    = 1600
)

// Chunker divides one document into chunks. It is not safe for concurrent use. The positions in its
// chunks are offsets in the text of a page, which consists of the page's blocks with the separators
// between them.
type Chunker struct {
	limits Limits
	number int    // number of the next chunk
	page   page   // the current page
	path   []mark // headings above the next block
	serial int    // serial number of the next heading
	head   []string
	draft  *draft // the chunk that is being filled, or nil
	held   *draft // a short section that may be joined with the next one, or nil
	done   []domain.Passage
}

// page is the current position on a page.
type page struct {
	number int
	at     int           // number of code points of the page's text so far
	last   document.Kind // kind of the page's last block, or "" before the page's first block
}

// mark is a heading above a chunk. Its serial number distinguishes it from headings with the same
// text.
type mark struct {
	serial, level int
	text          string
}

// New returns a Chunker for one document.
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

// Add processes the next block. It returns the chunks that are now complete, which are usually
// none.
func (c *Chunker) Add(block document.Block) []domain.Passage {
	if blank(block.Text) {
		return nil
	}
	// A chunk never spans two pages, because a citation refers to one page.
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

// Close returns the remaining chunks: the draft and the section that is held back.
func (c *Chunker) Close() []domain.Passage {
	c.finish(true)
	c.release()
	return c.take()
}

// take returns the completed chunks and removes them from c.
func (c *Chunker) take() []domain.Passage {
	done := c.done
	c.done = nil
	return done
}

// enter begins the section of a heading. If the previous block is a heading of a higher level, both
// stay in the same chunk, because a chunk that contains only a heading is useless.
func (c *Chunker) enter(block document.Block) {
	level := min(max(block.Level, 1), 6)
	kept := len(c.path)
	// A heading ends all sections of its own level and of lower levels.
	for kept > 0 && c.path[kept-1].level >= level {
		kept--
	}

	below := kept == len(c.path)
	c.serial++
	// Copy the path, because drafts still refer to the previous path.
	c.path = append(c.path[:kept:kept], mark{serial: c.serial, level: level, text: name(block.Text)})
	size := utf8.RuneCountInString(block.Text)
	if c.draft != nil && below && !c.draft.body && c.draft.size+2+size <= c.limits.Target {
		c.draft.path, c.draft.section = c.path, c.path
		return
	}
	c.finish(true)
}

// table stores the header rows of a table until the table ends. A table may end on a later page.
// Any block that is not a row ends the table.
func (c *Chunker) table(block document.Block) {
	switch {
	case block.Kind != document.Row:
		c.head = nil
	// If no table is open, the block is the first row of a table.
	case block.Head && c.page.last != document.Row:
		c.head = []string{block.Text}
	// Keep at most three header rows, because more rows would leave too little space in the chunk.
	case block.Head && len(c.head) < 3:
		c.head = append(slices.Clip(c.head), block.Text)
	}
}

// separate adds the separator between the previous block of the page and a block of the given kind.
// Rows of a table and items of a list follow each other without an empty line.
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
