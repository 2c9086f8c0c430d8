package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// day is the length of a day, and maxDays is the maximum number of days in a duration.
const (
	day     = 24 * time.Hour
	maxDays = 100_000
)

// span is a duration given as an option. It may be written as a number of seconds.
type span time.Duration

// UnmarshalText parses a duration: a number of seconds such as 90, or a text such as 1m30s or 2d.
func (s *span) UnmarshalText(text []byte) error {
	lasts, ok := parseDuration(string(text))
	if seconds, err := strconv.ParseInt(string(text), 10, 32); err == nil {
		lasts, ok = time.Duration(seconds)*time.Second, true
	}
	if !ok || lasts < 0 {
		return fmt.Errorf("must be a duration such as 90 (seconds), 5m or 1d, not %q", text)
	}
	*s = span(lasts)
	return nil
}

// parseDuration parses a duration such as 90s, 1h30m or 30d. Days are 24 hours and must come first.
// ok is false for any other text. The result may be negative.
func parseDuration(text string) (lasts time.Duration, ok bool) {
	if days, rest, has := strings.Cut(text, "d"); has {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > maxDays {
			return 0, false
		}
		if lasts, text = time.Duration(n)*day, rest; rest == "" {
			return lasts, true
		}
	}
	more, err := time.ParseDuration(text)
	return lasts + more, err == nil
}

// Texts returns an option that stores texts as the user gave them. By default, kong replaces each
// invalid byte by U+FFFD, so a message that is not UTF-8 would be changed instead of rejected, and a
// file with such a name would not be found.
func Texts() kong.Option {
	return kong.KindMapper(reflect.String, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue("text")
		if err != nil {
			return fmt.Errorf("reading a text: %w", err)
		}
		target.SetString(token.String())
		return nil
	}))
}

// Pairs returns an option that reads fields of the type map[string]string, as name=value. Like Texts,
// it keeps the bytes.
func Pairs() kong.Option {
	return kong.KindMapper(reflect.Map, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue("pair")
		if err != nil {
			return fmt.Errorf("reading a pair: %w", err)
		}
		name, value, found := strings.Cut(token.String(), "=")
		if !found {
			return fmt.Errorf("must be like name=value, not %q", token.String())
		}
		if target.IsNil() {
			target.Set(reflect.MakeMap(target.Type()))
		}
		target.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(value))
		return nil
	}))
}

// WholeNumbers returns an option that makes kong's errors about malformed numbers readable. The
// argument kind is the kind of the fields, and bits is their size.
func WholeNumbers(kind reflect.Kind, bits int) kong.Option {
	return kong.KindMapper(kind, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue("number")
		if err != nil {
			return fmt.Errorf("reading a number: %w", err)
		}
		n, err := strconv.ParseInt(token.String(), 0, bits)
		if err != nil {
			return fmt.Errorf("must be a whole number, not %q", token.String())
		}
		target.SetInt(n)
		return nil
	}))
}
