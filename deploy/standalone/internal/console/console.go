package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// widthWithout is how wide lines are cut for a terminal that does not say how wide it is.
const widthWithout = 80

// Console is a command's standard input and outputs.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	asks     bool // somebody types at In
	shows    bool // somebody watches Out
	tells    bool // somebody watches Err

	mu      sync.Mutex
	passing bool // the last line of Err is a progress's
}

// Standard gives the process's own.
func Standard() *Console {
	return &Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		asks: isTerminal(os.Stdin), shows: isTerminal(os.Stdout), tells: isTerminal(os.Stderr),
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Interactive reports whether somebody types and reads the answers.
func (c *Console) Interactive() bool { return c.asks && c.shows }

// Typed reports whether somebody types what is read.
func (c *Console) Typed() bool { return c.asks }

// Watched reports whether somebody reads Err as it is printed.
func (c *Console) Watched() bool { return c.tells }

// Printf writes a formatted text to Out. What others have written in it rules no terminal.
func (c *Console) Printf(format string, args ...any) error {
	defer c.begin()()
	if _, err := io.WriteString(c.Out, Safe(fmt.Sprintf(format, args...))); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// Notef writes a line to Err: what a person should know and no program reads. It rules no terminal either.
func (c *Console) Notef(format string, args ...any) {
	defer c.begin()()
	_, _ = io.WriteString(c.Err, Safe(fmt.Sprintf(format+"\n", args...))) // there is nowhere else to complain
}

// begin takes a progress's line away, and keeps it away until end is called.
func (c *Console) begin() (end func()) {
	c.mu.Lock()
	if c.passing {
		fmt.Fprint(c.Err, clearLine)
		c.passing = false
	}
	return c.mu.Unlock
}

// JSON writes a value to Out, in one line.
func (c *Console) JSON(value any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}

// Cut shortens a line to the width of a terminal; where nobody watches, lines stay whole.
func (c *Console) Cut(line string) string {
	if !c.shows {
		return line
	}
	return Clip(line, c.width())
}

// Width is how many characters a line may have before a terminal breaks it, 0 where nobody watches.
func (c *Console) Width() int {
	if !c.shows {
		return 0
	}
	return c.width()
}

func (c *Console) width() int {
	f, ok := c.Out.(*os.File)
	if !ok {
		return widthWithout
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		return widthWithout
	}
	return width
}

// Clip shortens a line to so many characters, and says by its last one that it did.
func Clip(line string, width int) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// OneLine makes one line of a text that was written by others: a terminal must not obey what stands in it.
func OneLine(text string) string { return strings.Join(strings.Fields(Safe(text)), " ") }

// Safe leaves out of a text what would control a terminal, but for line ends and tabs, and what would show its letters in another
// order than they have: a name must look as what it is.
func Safe(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		default:
			return r
		}
	}, text)
}
