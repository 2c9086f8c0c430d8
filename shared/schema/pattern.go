package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern     = 1000   // bytes of a pattern
	maxPatternSize = 2_000  // instructions of a pattern
	maxPatterns    = 20_000 // instructions of all patterns of a schema
)

// errPattern rejects a schema whose patterns would take too much memory.
var errPattern = errors.New("a pattern is too large")

// pattern is a regular expression of known size. An expression that Go does not support, for
// example with look-around or more than 1000 repetitions, matches every text; only the receiver of
// the call applies such an expression.
type pattern struct {
	text string
	size int
	re   *regexp.Regexp // nil if not supported
}

// String returns the expression as written.
func (p *pattern) String() string { return p.text }

// MatchString reports whether a part of s matches.
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

// patterns compiles the regular expressions of one schema, and limits their total size. The library
// requests each expression twice, but patterns compiles an expression only once. A patterns value
// is not safe for concurrent use.
type patterns struct {
	known map[string]*pattern
	size  int
}

// unicodeEscape matches an escape that JSON Schema's patterns have and Go's do not.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// compile returns the compiled pattern. It returns errPattern if the pattern, or all patterns
// of the schema together, are too large.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	// Schemas often repeat a pattern.
	if known, ok := p.known[text]; ok {
		return known, nil
	}

	if len(text) > maxPattern {
		return nil, errPattern
	}

	// If parsing fails, the pattern is kept without an expression.
	found := &pattern{text: text}
	translated := unicodeEscape.ReplaceAllString(text, `\x{$1}`)
	if tree, err := syntax.Parse(translated, syntax.Perl); err == nil {
		found.size = size(tree)
		if p.size += found.size; found.size > maxPatternSize || p.size > maxPatterns {
			return nil, errPattern
		}
		if found.re, err = regexp.Compile(translated); err != nil {
			return nil, fmt.Errorf("compiling pattern %s: %w", strconv.Quote(text), err)
		}
	}

	p.known[text] = found
	return found, nil
}

// size is the approximate number of instructions of a compiled expression. A repetition counts as
// copies of the repeated expression.
func size(tree *syntax.Regexp) int {
	n := 1
	for _, sub := range tree.Sub {
		n += size(sub)
		// The exact size does not matter any more, and nested repetitions would overflow the
		// number.
		if n > maxPatternSize {
			return n
		}
	}

	switch tree.Op {
	case syntax.OpRepeat:
		n *= max(tree.Max, tree.Min+1, 1)
	case syntax.OpLiteral:
		n += len(tree.Rune)
	case syntax.OpCharClass:
		n += len(tree.Rune) / 64
	default:
	}

	return n
}
