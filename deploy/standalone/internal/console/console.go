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

// Printf writes a formatted text to Out.
func (c *Console) Printf(format string, args ...any) error {
	defer c.begin()()
	if _, err := fmt.Fprintf(c.Out, format, args...); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// Notef writes a line to Err: what a person should know and no program reads.
func (c *Console) Notef(format string, args ...any) {
	defer c.begin()()
	_, _ = fmt.Fprintf(c.Err, format+"\n", args...) // there is nowhere else to complain
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
	return cut(line, c.width())
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

func cut(line string, width int) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// OneLine makes one line of a text that was written by others: a terminal must not obey what stands in it.
func OneLine(text string) string { return strings.Join(strings.Fields(Safe(text)), " ") }

// Safe leaves out of a text what would control a terminal, but for line ends and tabs.
func Safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0) {
			return -1
		}
		return r
	}, text)
}
