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
	maxDepth = 64       // of nested objects and lists in a payload
	maxNamed = 64 << 10 // bytes of an id, an event or a challenge
)

// wanted is a tree of the paths that rules ask for: a payload is read once for all of them, and nothing else of it is kept.
type wanted struct {
	children map[string]*wanted
	at       int // where the value is put; negative: none is asked for here
}

func newWanted() *wanted { return &wanted{at: -1} }

// add asks for a path, and gives where its value will be: the same for the same path.
func (w *wanted) add(path []string, next int) (at int) {
	for _, key := range path {
		child := w.children[key]
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
		case depth > maxDepth:
			return false
		case depth == 0:
			values++
		}
	}
}

// scanner walks through a payload. Its reads do not fail, because isPayload has checked the grammar.
type scanner struct {
	src    []byte
	in     *jsontext.Decoder
	values [][]byte // what was found, nil for what was not
}

// find gives the values of what is wanted, as they are written. Of a name that an object has twice the last counts.
func find(raw []byte, w *wanted, n int) [][]byte {
	s := scanner{src: raw, in: newReader(raw), values: make([][]byte, n)}
	s.value(w)
	return s.values
}

// value reads a value of which w is wanted; nil is nothing of it.
func (s *scanner) value(w *wanted) {
	if w == nil {
		_ = s.in.SkipValue()
		return
	}
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

func (s *scanner) object(w *wanted) {
	_, _ = s.in.ReadToken()
	for s.in.PeekKind() == '"' {
		name, _ := s.in.ReadValue()
		child := w.child(name)
		s.forget(child) // what stood under this name before does not count
		s.value(child)
	}
	_, _ = s.in.ReadToken()
}

// child returns what is wanted of a member. Its name is quoted, as in the payload. It returns nil for a name that is too
// long for a path.
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

func (s *scanner) list(w *wanted) {
	_, _ = s.in.ReadToken()
	for i := 0; ; i++ {
		if kind := s.in.PeekKind(); kind == ']' || kind == jsontext.KindInvalid {
			break
		}
		s.value(w.children[strconv.Itoa(i)])
	}
	_, _ = s.in.ReadToken()
}

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

// textFor gives the text of a JSON string, with U+FFFD for what is none.
func textFor(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// text gives the string at a path of the payload, "" when there is none, or one that is too long for a name.
func (p Payload) text(path string) string {
	keys, err := parsePath(path)
	if err != nil {
		return "" // not reached: the paths are this package's own
	}
	w := newWanted()
	at := w.add(keys, 0)
	raw := find(p.raw, w, 1)[at]
	if len(raw) == 0 || raw[0] != '"' || len(raw) > maxNamed {
		return ""
	}
	return textFor(raw)
}
