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

var errPattern = errors.New("a pattern is too large")

// pattern is a regular expression of known size. One that only other engines know, such as with look-around or more than
// 1000 repetitions, matches everything: whoever is called checks it.
type pattern struct {
	text string
	size int
	re   *regexp.Regexp // nil when unknown
}

// String gives the expression as it was written.
func (p *pattern) String() string { return p.text }

// MatchString reports whether a part of s matches.
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

// patterns compiles the regular expressions of one schema, each once: they are asked for twice.
type patterns struct {
	known map[string]*pattern
	size  int
}

// unicodeEscape is what JSON Schema's patterns have and Go's do not.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known, ok := p.known[text]; ok {
		return known, nil
	}
	if len(text) > maxPattern {
		return nil, errPattern
	}
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

// size is about how many instructions an expression is compiled to; repetitions are copies.
func size(tree *syntax.Regexp) int {
	n := 1
	for _, sub := range tree.Sub {
		n += size(sub)
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
