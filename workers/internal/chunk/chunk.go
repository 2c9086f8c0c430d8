package chunk

import (
	"slices"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// Limits bound the length of chunks in code points. Zero and negative values mean the defaults.
type Limits struct {
	Target int // intended length
	Max    int // maximum length
}

// The default limits. With them, several chunks fit into a prompt, and a chunk usually has a single
// topic.
const (
	defaultTarget = 1000
	maxDefault    = 1600
)

// Chunker divides one document into chunks.
type Chunker struct {
	limits Limits
	number int    // number of the next chunk
	page   page   // the current page
	path   []mark // the headings above the next block
	serial int    // number of the next heading
	head   []string
	draft  *draft // the open chunk; nil if there is none
	held   *draft // a short section that may be joined with the next section
	done   []domain.Passage
}

// page is the reading position on a page.
type page struct {
	number int
	at     int           // code points of its text so far
	last   document.Kind // kind of the page's last block; "" before the first block
}

// mark is a heading above a chunk. The serial number distinguishes headings with the same text.
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

// Add processes the next block. It returns the chunks that this block completes, usually none.
func (c *Chunker) Add(block document.Block) []domain.Passage {
	if blank(block.Text) {
		return nil
	}
	// A citation refers to one page, so a chunk ends with its page.
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

// Close returns the remaining chunks.
func (c *Chunker) Close() []domain.Passage {
	c.finish(true)
	c.release()
	return c.take()
}

// take returns the completed chunks and forgets them.
func (c *Chunker) take() []domain.Passage {
	done := c.done
	c.done = nil
	return done
}

// enter begins the section under a heading. A heading directly after a higher-level heading stays
// in the same chunk, because a chunk that contains only a chapter's name is useless.
func (c *Chunker) enter(block document.Block) {
	level := min(max(block.Level, 1), 6)
	kept := len(c.path)
	// A heading ends the sections of the same and of lower levels.
	for kept > 0 && c.path[kept-1].level >= level {
		kept--
	}

	below := kept == len(c.path)
	c.serial++
	// Copy the path, because drafts refer to the old path.
	c.path = append(c.path[:kept:kept], mark{serial: c.serial, level: level, text: name(block.Text)})
	size := utf8.RuneCountInString(block.Text)
	if c.draft != nil && below && !c.draft.body && c.draft.size+2+size <= c.limits.Target {
		c.draft.path, c.draft.section = c.path, c.path
		return
	}
	c.finish(true)
}

// table remembers the header rows of a table until the table ends, even on a later page.
func (c *Chunker) table(block document.Block) {
	switch {
	case block.Kind != document.Row:
		c.head = nil
	// This is the first row of a table.
	case block.Head && c.page.last != document.Row:
		c.head = []string{block.Text}
	// Tables have few header rows. More than three would fill the chunk.
	case block.Head && len(c.head) < 3:
		c.head = append(slices.Clip(c.head), block.Text)
	}
}

// separate adds the separator between the previous block of the page and a block of this kind.
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
