package cli

import (
	"fmt"
	"io"
	"strings"

	"parley/deploy/standalone/internal/console"
)

// told prints an answer while it is told. What was printed cannot be taken back: when another attempt tells otherwise, its
// text is printed anew, on a line of its own.
type told struct {
	out   io.Writer
	shown string // since the last fresh start
	text  string // of this attempt
	anew  func() // told before a text is printed anew
}

// delta adds a piece of this attempt's text.
func (t *told) delta(piece string) error {
	t.text += console.Safe(piece)
	if strings.HasPrefix(t.shown, t.text) {
		return nil // told again, so far
	}
	return t.show()
}

// restarted says that what was told is void.
func (t *told) restarted() { t.text = "" }

// end prints what is left of the whole text, and ends its line.
func (t *told) end(whole string) error {
	t.text = console.Safe(whole)
	if t.shown != t.text {
		if err := t.show(); err != nil {
			return err
		}
	}
	return t.print("\n")
}

func (t *told) show() error {
	fresh, goesOn := strings.CutPrefix(t.text, t.shown)
	if !goesOn {
		if t.anew != nil {
			t.anew()
		}
		fresh = "\n" + t.text
	}
	t.shown = t.text
	return t.print(fresh)
}

// freshLine reports whether the next thing printed begins a line.
func (t *told) freshLine() bool { return t.shown == "" || strings.HasSuffix(t.shown, "\n") }

func (t *told) print(text string) error {
	if _, err := io.WriteString(t.out, text); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}
