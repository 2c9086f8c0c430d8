package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// Expand inserts arguments into the template. It returns the URL and the unused arguments; args is
// not changed. A query pair whose argument is missing is left out. The text of the error is written
// for the model or person that chose the arguments.
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

	// The caller sends the remaining arguments in another part of the request.
	rest = maps.Clone(args)
	path, query := t.Variables()
	for _, name := range append(path, query...) {
		delete(rest, name)
	}

	return b.String(), rest, nil
}

// expand returns a path segment with its arguments inserted. It rejects a value that could become
// several segments: many servers unescape a path before they route it, and would treat
// /users/1%2Fdelete like /users/1/delete.
func (s segment) expand(args map[string]any) (string, error) {
	// The variable b contains the segment as sent, and the variable plain contains the segment as
	// read by a server. The variable values contains the same as plain, but without the slashes
	// that the template itself contains.
	var b, plain, values strings.Builder
	for _, p := range s {
		if p.variable == "" {
			b.WriteString(p.literal)
			literal, _ := url.PathUnescape(p.literal) // checked by Parse
			plain.WriteString(literal)
			values.WriteString(withoutSlashes(literal)) // slashes of the template itself are intended
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
		values.WriteString(value)
	}

	switch {
	case !s.variable():
	case hasSlash(values.String()): // each value was checked above, but the segment's parts together can form an escaped slash
		return "", errors.New("the arguments together must not form a slash or backslash in the path, escaped or not")
	case leavesSegment(plain.String()):
		return "", errors.New(`the arguments must not form the path segment "." or ".."`)
	}

	return b.String(), nil
}

// variable reports whether the segment contains a variable.
func (s segment) variable() bool { return len(s) > 1 || len(s) == 1 && s[0].variable != "" }

// checkPathValue returns an error if a value could leave its segment or make it empty.
func checkPathValue(value string) error {
	switch {
	case value == "":
		return errors.New("is required and must not be empty")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("must not contain control characters")
	case hasSlash(value):
		return errors.New("must not contain a slash or backslash, escaped or not")
	}
	return nil
}

// readings returns a part of a path unchanged, and as read by servers that unescape it once or
// twice more.
func readings(value string) [3]string {
	once := unescape(value)
	return [3]string{value, once, unescape(once)}
}

// hasSlash reports whether a server might read a slash in a value, possibly after unescaping it.
func hasSlash(value string) bool {
	for _, reading := range readings(value) {
		if strings.ContainsAny(reading, `/\`) {
			return true
		}
	}
	return false
}

// leavesSegment reports whether a server might read a segment, or a part of it between slashes, as
// "." or "..".
func leavesSegment(value string) bool {
	for _, reading := range readings(value) {
		for part := range strings.FieldsFuncSeq(reading, func(r rune) bool { return r == '/' || r == '\\' }) {
			// Some servers remove parameters, which follow a semicolon, before they resolve dots.
			if dots, _, _ := strings.Cut(part, ";"); isDots(dots) {
				return true
			}
		}
	}
	return false
}

// withoutSlashes returns a literal as a server reads it, without its slashes.
func withoutSlashes(literal string) string {
	return strings.NewReplacer("/", "", `\`, "").Replace(readings(literal)[2])
}

// unescape decodes the escapes of a path. It keeps a % that begins no valid escape. Strict servers
// reject such a path, but lenient servers decode the other escapes.
func unescape(value string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		value = after
		if len(after) >= 2 {
			if code, err := strconv.ParseUint(after[:2], 16, 8); err == nil {
				b.WriteByte(byte(code))
				value = after[2:]
				continue
			}
		}
		b.WriteByte('%')
	}
}

// expand returns the query pairs with their arguments inserted: no pair for a missing argument, and
// a pair for each element if the whole value is a list.
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
		// A pair in which a value is missing would have another meaning, so it is omitted.
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

// Scalar formats a JSON scalar for a URL. Null and missing values are "".
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
	// A number is written without an exponent, as people write it.
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	default:
		return "", fmt.Errorf("must be a string, a number or a boolean")
	}
}

// Scalars formats the elements of a list for a URL. It returns one value for a scalar, and none
// for null or a missing value.
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
			return nil, fmt.Errorf("must be a string, a number, a boolean or a list of them")
		}
		texts[i] = text
	}

	return texts, nil
}
