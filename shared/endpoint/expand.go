package endpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// Expand puts arguments in, and gives the address and the arguments that it does not use. A query's pair whose
// argument is missing is left out. The error is made for whoever gave the arguments.
func (t *Template) Expand(args map[string]any) (address string, rest map[string]any, err error) {
	var b strings.Builder
	b.WriteString(t.base)
	for _, s := range t.path {
		text, err := s.expand(args)
		if err != nil {
			return "", nil, err
		}
		b.WriteString("/" + text)
	}
	mark := "?"
	for _, p := range t.query {
		parts, err := p.expand(args)
		if err != nil {
			return "", nil, err
		}
		for _, part := range parts {
			b.WriteString(mark + part)
			mark = "&"
		}
	}
	rest = maps.Clone(args)
	path, query := t.Variables()
	for _, name := range append(path, query...) {
		delete(rest, name)
	}
	return b.String(), rest, nil
}

// expand gives a segment of a path. A value in it can be no other segment than the one it stands in.
func (s segment) expand(args map[string]any) (string, error) {
	var b, plain strings.Builder
	for _, p := range s {
		if p.variable == "" {
			b.WriteString(p.literal)
			literal, _ := url.PathUnescape(p.literal) // checked by Parse
			plain.WriteString(literal)
			continue
		}
		value, err := Scalar(args[p.variable])
		if err != nil {
			return "", fmt.Errorf("the argument %q %w", p.variable, err)
		}
		if err := checkPathValue(value); err != nil {
			return "", fmt.Errorf("the argument %q %w", p.variable, err)
		}
		b.WriteString(url.PathEscape(value))
		plain.WriteString(value)
	}
	if s.variable() && climbs(plain.String()) {
		return "", fmt.Errorf("the arguments must not lead to . or .. in the path")
	}
	return b.String(), nil
}

func (s segment) variable() bool { return len(s) > 1 || len(s) == 1 && s[0].variable != "" }

func checkPathValue(value string) error {
	switch {
	case value == "":
		return fmt.Errorf("is needed and must not be empty")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("must not contain control characters")
	}
	return nil
}

// climbs reports whether a segment would leave its place in a server that reads escaped slashes as such, even if it
// unescapes twice.
func climbs(value string) bool {
	for range 3 {
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' || r == '\\' }) {
			if dots, _, _ := strings.Cut(part, ";"); isDots(dots) {
				return true
			}
		}
		again, err := url.PathUnescape(value)
		if err != nil || again == value {
			return false
		}
		value = again
	}
	return false
}

// expand gives no pair for a missing argument, and one for each element when the whole value is a list.
func (p pair) expand(args map[string]any) ([]string, error) {
	if len(p.value) == 1 && p.value[0].variable != "" {
		name := p.value[0].variable
		values, err := Scalars(args[name])
		if err != nil {
			return nil, fmt.Errorf("the argument %q %w", name, err)
		}
		parts := make([]string, len(values))
		for i, value := range values {
			parts[i] = p.name + url.QueryEscape(value)
		}
		return parts, nil
	}
	var b strings.Builder
	b.WriteString(p.name)
	for _, piece := range p.value {
		if piece.variable == "" {
			b.WriteString(piece.literal)
			continue
		}
		if args[piece.variable] == nil {
			return nil, nil
		}
		value, err := Scalar(args[piece.variable])
		if err != nil {
			return nil, fmt.Errorf("the argument %q %w", piece.variable, err)
		}
		b.WriteString(url.QueryEscape(value))
	}
	return []string{b.String()}, nil
}

// Scalar gives a value of JSON as it stands in an address; null and a missing one as "".
func Scalar(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return v.String(), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	default:
		return "", fmt.Errorf("must be a text, a number or a boolean")
	}
}

// Scalars gives each element of a list, one value for a scalar, and none for null or a missing one.
func Scalars(value any) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	texts := make([]string, len(list))
	for i, v := range list {
		text, err := Scalar(v)
		if err != nil {
			return nil, fmt.Errorf("must be a text, a number, a boolean or a list of them")
		}
		texts[i] = text
	}
	return texts, nil
}
