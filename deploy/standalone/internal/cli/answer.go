package cli

import (
	"fmt"
	"io"
	"strings"

	"parley/deploy/standalone/internal/console"
)

// answerWriter prints an answer while it streams. Text that has been printed cannot be removed. If
// another attempt produces a different text, answerWriter prints that text from its beginning on a
// new line. An answerWriter prints one answer.
type answerWriter struct {
	out       io.Writer
	shown     string // text printed so far; after a restart with a different text, only the new text
	text      string // text received so far in this attempt
	onRestart func() // called before a different text is printed
}

// delta adds a piece of text from the current attempt, and prints what has not been printed yet.
func (t *answerWriter) delta(piece string) error {
	t.text += console.Safe(piece)
	if strings.HasPrefix(t.shown, t.text) {
		return nil // this attempt has so far repeated the printed text
	}
	return t.show()
}

// restarted discards the text of the previous attempt. The printed text stays, and show compares
// the text of the new attempt with it.
func (t *answerWriter) restarted() { t.text = "" }

// end receives the complete text. It prints the part that has not been printed yet, and a newline.
func (t *answerWriter) end(whole string) error {
	t.text = console.Safe(whole)
	if t.shown != t.text {
		if err := t.show(); err != nil {
			return err
		}
	}
	return t.print("\n")
}

// show prints the part of the text that has not been printed. If the text does not begin with the
// printed text, show prints the whole text on a new line.
func (t *answerWriter) show() error {
	fresh, goesOn := strings.CutPrefix(t.text, t.shown)
	if !goesOn {
		if t.onRestart != nil {
			t.onRestart()
		}
		fresh = "\n" + t.text
	}
	t.shown = t.text
	return t.print(fresh)
}

// freshLine reports whether the output is at the beginning of a line.
func (t *answerWriter) freshLine() bool { return t.shown == "" || strings.HasSuffix(t.shown, "\n") }

// print writes text to the output.
func (t *answerWriter) print(text string) error {
	if _, err := io.WriteString(t.out, text); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}
