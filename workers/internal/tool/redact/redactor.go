package redact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	hidden    = "***"
	maxValues = 600_000 // inside of one value of JSON
	lookEvery = 1 << 12 // values, between two looks at whether the result is still wanted
)

// ErrTooMany says that a value of JSON has too many parts to look at.
var ErrTooMany = errors.New("the value has too many parts")

// Redactor takes secrets out; safe for concurrent use. The nil one knows none.
type Redactor struct {
	forms   matcher
	numbers bool // one of them may be found in a number
}

func newRedactor(forms []string) *Redactor {
	r := &Redactor{forms: newMatcher(forms)}
	for _, form := range forms {
		r.numbers = r.numbers || strings.Trim(form, "0123456789.+-eE") == ""
	}
	return r
}

// Text gives a text without secrets, and without what no database keeps.
func (r *Redactor) Text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if r == nil {
		return s
	}
	return r.forms.replace(s, hidden)
}

// Broken gives a text like Text does that was cut off somewhere, which may be in the middle of a secret.
func (r *Redactor) Broken(s string) string {
	s = strings.TrimRight(r.Text(s), "\uFFFD") // half a character
	if r == nil {
		return s
	}
	return s[:len(s)-r.forms.begun(s)]
}

// Value does to all that a value of JSON holds what Text does to a text; lists are changed in place. It fails when there
// is too much of it, or when ctx ends.
func (r *Redactor) Value(ctx context.Context, v any) (any, error) {
	w := walk{r: r}
	v = w.value(ctx, v)
	if w.err != nil {
		return nil, fmt.Errorf("redacting: %w", w.err)
	}
	return v, nil
}

// walk is one way through a value.
type walk struct {
	r    *Redactor
	seen int
	err  error
}

func (w *walk) value(ctx context.Context, v any) any {
	if w.over(ctx) {
		return nil
	}
	switch v := v.(type) {
	case string:
		return w.r.Text(v)
	case json.Number, float64:
		return w.r.Number(v)
	case []any:
		for i := range v {
			v[i] = w.value(ctx, v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[w.r.Text(name)] = w.value(ctx, item)
		}
		return out
	default:
		return v
	}
}

// Number gives a number, json.Number or float64, as it is unless a secret stands in its digits, and anything else.
func (r *Redactor) Number(v any) any {
	if r == nil || !r.numbers {
		return v
	}
	var digits string
	switch v := v.(type) {
	case json.Number:
		digits = v.String()
	case float64:
		digits = strconv.FormatFloat(v, 'f', -1, 64)
	}
	if text := r.forms.replace(digits, hidden); text != digits {
		return text
	}
	return v
}

// over reports whether the walk has come to an end before its time.
func (w *walk) over(ctx context.Context) bool {
	if w.err == nil && w.seen%lookEvery == 0 && ctx.Err() != nil {
		w.err = context.Cause(ctx)
	}
	if w.seen++; w.err == nil && w.seen > maxValues {
		w.err = ErrTooMany
	}
	return w.err != nil
}

// Err gives an error whose text holds no secret. What it is can still be asked with errors.Is, what it was made of not.
func (r *Redactor) Err(err error) error {
	if err == nil {
		return nil
	}
	return &silenced{text: r.Text(err.Error()), err: err}
}

// silenced is an error that does not show its cause.
type silenced struct {
	text string
	err  error
}

// Error gives the text without secrets.
func (s *silenced) Error() string { return s.text }

// Is is for errors.Is.
func (s *silenced) Is(target error) bool { return errors.Is(s.err, target) }
