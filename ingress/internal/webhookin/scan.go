package webhookin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxDepth = 64       // maximum depth of nested objects and lists in a payload
	maxNamed = 64 << 10 // bytes of an id, an event or a challenge
)

// wanted is a tree of the paths that rules use. A payload is read once for all of them, and the
// rest is discarded.
type wanted struct {
	children map[string]*wanted
	at       int // the index of the value; negative: no rule uses this path
}

// newWanted returns a tree without paths.
func newWanted() *wanted { return &wanted{at: -1} }

// add adds a path and returns the index of its value. Equal paths share an index.
func (w *wanted) add(path []string, next int) (at int) {
	for _, key := range path {
		child := w.children[key]
		// The tree has one node for each name in a path, which paths share.
		if child == nil {
			child = newWanted()
			if w.children == nil {
				w.children = map[string]*wanted{}
			}
			w.children[key] = child
		}
		w = child
	}
	if w.at < 0 {
		w.at = next
	}
	return w.at
}

// newReader returns a tokenizer of a payload. It accepts duplicate names and half surrogate pairs: find lets the last name
// win, and textFor replaces half a pair with U+FFFD.
func newReader(src []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// isPayload reports whether a body is one JSON value of at most maxDepth levels.
func isPayload(body []byte) bool {
	in := newReader(body)
	for values := 0; ; {
		_, err := in.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF) && values == 1
		}
		switch depth := in.StackDepth(); {
		// Deep nesting costs stack wherever the payload is read later.
		case depth > maxDepth:
			return false
		case depth == 0:
			values++
		}
	}
}

// scanner walks through a payload. Its reads cannot fail, because isPayload has checked the
// grammar.
type scanner struct {
	src    []byte
	in     *jsontext.Decoder
	values [][]byte // the values found; nil for missing ones
}

// find returns the JSON of the wanted values. If a name is repeated in an object, its last value
// counts.
func find(raw []byte, w *wanted, n int) [][]byte {
	s := scanner{src: raw, in: newReader(raw), values: make([][]byte, n)}
	s.value(w)
	return s.values
}

// value reads a value. w is the wanted subtree; nil: the value is skipped.
func (s *scanner) value(w *wanted) {
	if w == nil {
		_ = s.in.SkipValue()
		return
	}

	// The offsets show where the value is in the source, so its JSON need not be rendered again.
	before := s.in.InputOffset()
	switch kind := s.in.PeekKind(); {
	case kind == '{' && len(w.children) > 0:
		s.object(w)
	case kind == '[' && len(w.children) > 0:
		s.list(w)
	default:
		_ = s.in.SkipValue()
	}
	if w.at >= 0 {
		s.values[w.at] = bytes.TrimLeft(s.src[before:s.in.InputOffset()], " \t\r\n:,")
	}
}

// object reads an object. Members that no rule uses are skipped without decoding.
func (s *scanner) object(w *wanted) {
	_, _ = s.in.ReadToken()
	for s.in.PeekKind() == '"' {
		name, _ := s.in.ReadValue()
		child := w.child(name)
		s.forget(child) // an earlier value of this name does not count
		s.value(child)
	}
	_, _ = s.in.ReadToken()
}

// child returns the wanted subtree of a member. Its name is quoted, as in the payload. It returns
// nil for a name that is too long for a path.
func (w *wanted) child(name []byte) *wanted {
	switch {
	case len(name) > charBytes*maxPath+2:
		return nil
	case bytes.IndexByte(name, '\\') >= 0:
		return w.children[textFor(name)]
	default:
		return w.children[string(name[1:len(name)-1])]
	}
}

// list reads a list. Its elements are named by their index, as in labels.0.name.
func (s *scanner) list(w *wanted) {
	_, _ = s.in.ReadToken()
	for i := 0; ; i++ {
		if kind := s.in.PeekKind(); kind == ']' || kind == jsontext.KindInvalid {
			break
		}
		// For an index that no rule uses, the subtree is nil and the element is skipped.
		s.value(w.children[strconv.Itoa(i)])
	}
	_, _ = s.in.ReadToken()
}

// forget removes the values of a subtree. It does nothing for nil.
func (s *scanner) forget(w *wanted) {
	if w == nil {
		return
	}
	if w.at >= 0 {
		s.values[w.at] = nil
	}
	for _, child := range w.children {
		s.forget(child)
	}
}

// textFor returns the text of a JSON string, with U+FFFD for invalid parts.
func textFor(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// text returns the string at a path of the payload. It returns "" if there is none or it is too
// long for a name.
func (p Payload) text(path string) string {
	keys, err := parsePath(path)
	if err != nil {
		return "" // unreachable: the paths are constants of this package
	}

	w := newWanted()
	at := w.add(keys, 0)
	raw := find(p.raw, w, 1)[at]
	// Names of a delivery are short texts.
	if len(raw) == 0 || raw[0] != '"' || len(raw) > maxNamed {
		return ""
	}
	return textFor(raw)
}
