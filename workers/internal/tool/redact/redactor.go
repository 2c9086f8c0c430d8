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
	// The text with which a secret is replaced.
	hidden    = "***"
	maxValues = 600_000 // maximum number of values in a JSON value
	lookEvery = 1 << 12 // number of values between two checks of the context
)

// ErrTooMany means that a JSON value contains more than maxValues values.
var ErrTooMany = errors.New("the value has too many parts")

// Redactor removes secrets from texts and values. It is safe for concurrent use. A nil Redactor
// removes nothing.
type Redactor struct {
	forms   matcher
	numbers bool // true if a secret could be a number
}

// newRedactor returns a redactor for secrets. forms contains the secrets in all forms in which they
// may occur.
func newRedactor(forms []string) *Redactor {
	r := &Redactor{forms: newMatcher(forms)}
	for _, form := range forms {
		// Formatting each number takes time, so numbers are examined only if a secret could be a
		// number.
		r.numbers = r.numbers || strings.Trim(form, "0123456789.+-eE") == ""
	}
	return r
}

// Text removes secrets from a text. It also removes invalid UTF-8 and NUL characters, which
// databases cannot store.
func (r *Redactor) Text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if r == nil {
		return s
	}
	return r.forms.replace(s, hidden)
}

// Broken does the same as Text for a text that was truncated. It also removes the beginning of a
// secret from the text's end.
func (r *Redactor) Broken(s string) string {
	s = strings.TrimRight(r.Text(s), "\uFFFD") // remove an incomplete character
	if r == nil {
		return s
	}
	return s[:len(s)-r.forms.begun(s)]
}

// Value removes secrets from all strings and numbers of a JSON value. It changes lists in place. It
// fails if there are too many values or ctx ends.
func (r *Redactor) Value(ctx context.Context, v any) (any, error) {
	w := walk{r: r}
	v = w.value(ctx, v)
	if w.err != nil {
		return nil, fmt.Errorf("redacting: %w", w.err)
	}
	return v, nil
}

// walk is the state of one call of Value.
type walk struct {
	r    *Redactor
	seen int
	err  error
}

// value returns v without secrets. It returns nil if Value has failed.
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

// Number removes secrets from a number, which is a json.Number or float64. If the digits contain a
// secret, the result is a text. Number returns any other value unchanged.
func (r *Redactor) Number(v any) any {
	if r == nil || !r.numbers {
		return v
	}
	var digits string
	switch v := v.(type) {
	case json.Number:
		digits = v.String()
	// The number is formatted without an exponent, in the form in which a key would be written.
	case float64:
		digits = strconv.FormatFloat(v, 'f', -1, 64)
	}
	if text := r.forms.replace(digits, hidden); text != digits {
		return text
	}
	return v
}

// over reports whether Value must stop, because maxValues is exceeded or its context has ended.
func (w *walk) over(ctx context.Context) bool {
	// Check the context only now and then, because checking it for every value would be slow.
	if w.err == nil && w.seen%lookEvery == 0 && ctx.Err() != nil {
		w.err = context.Cause(ctx)
	}
	if w.seen++; w.err == nil && w.seen > maxValues {
		w.err = ErrTooMany
	}
	return w.err != nil
}

// Err returns an error with the text of err without secrets. errors.Is finds the causes of err, but
// errors.As and errors.Unwrap do not reach them.
func (r *Redactor) Err(err error) error {
	if err == nil {
		return nil
	}
	return &redactedError{text: r.Text(err.Error()), err: err}
}

// redactedError is an error that hides its cause.
type redactedError struct {
	text string
	err  error
}

// Error returns the text without secrets.
func (s *redactedError) Error() string { return s.text }

// Is implements errors.Is.
func (s *redactedError) Is(target error) bool { return errors.Is(s.err, target) }
