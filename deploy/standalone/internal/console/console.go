package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"parley/shared/truncate"
)

// widthWithout is the assumed width of a terminal that does not report its width.
const widthWithout = 80

// Console contains a command's standard input and outputs. Its methods may be called concurrently.
// Tests create Consoles with their own readers and writers, which are not terminals.
type Console struct {
	In          io.Reader
	Out, Err    io.Writer
	inTerminal  bool // whether In is a terminal
	outTerminal bool // whether Out is a terminal
	errTerminal bool // whether Err is a terminal

	// mu protects progressShown, and keeps the progress line and other output apart.
	mu            sync.Mutex
	progressShown bool // whether a progress line is on the terminal
}

// Standard returns the console of this process's standard input, output and error.
func Standard() *Console {
	return &Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		inTerminal: isTerminal(os.Stdin), outTerminal: isTerminal(os.Stdout), errTerminal: isTerminal(os.Stderr),
	}
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Interactive reports whether In and Out are terminals.
func (c *Console) Interactive() bool { return c.inTerminal && c.outTerminal }

// Typed reports whether In is a terminal.
func (c *Console) Typed() bool { return c.inTerminal }

// Watched reports whether Err is a terminal.
func (c *Console) Watched() bool { return c.errTerminal }

// Printf writes formatted text to Out. It removes control characters.
func (c *Console) Printf(format string, args ...any) error {
	defer c.begin()()
	if _, err := io.WriteString(c.Out, Safe(fmt.Sprintf(format, args...))); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// Notef writes a line to Err that is meant for people, not for programs. It removes control
// characters.
func (c *Console) Notef(format string, args ...any) {
	defer c.begin()()
	_, _ = io.WriteString(c.Err, Safe(fmt.Sprintf(format+"\n", args...))) // an error is ignored, because there is no other output for it
}

// begin removes the progress line from the terminal. No progress line appears until the caller
// calls end.
func (c *Console) begin() (end func()) {
	c.mu.Lock()
	if c.progressShown {
		fmt.Fprint(c.Err, clearLine)
		c.progressShown = false
	}
	return c.mu.Unlock
}

// JSON writes a value to Out on one line. It does not remove control characters, because JSON
// escapes them.
func (c *Console) JSON(value any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}

// Cut truncates a line to the width of the terminal, with an ellipsis. It does nothing if Out is
// not a terminal.
func (c *Console) Cut(line string) string {
	if !c.outTerminal {
		return line
	}
	return truncate.Ellipsis(line, c.width())
}

// Width returns the width of the terminal in characters, or 0 if Out is not a terminal.
func (c *Console) Width() int {
	if !c.outTerminal {
		return 0
	}
	return c.width()
}

// width returns the width of the terminal, or widthWithout if it is unknown.
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

// OneLine makes one line of a text from an untrusted source and removes its control characters.
func OneLine(text string) string { return strings.Join(strings.Fields(Safe(text)), " ") }

// Safe removes characters that control a terminal, except newlines and tabs. It also removes
// characters that change the direction of writing, so that a name is displayed as it is stored.
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
