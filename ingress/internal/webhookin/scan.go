package webhookin

import (
	"bytes"
	"encoding/json"
	"strconv"
)

const (
	depthMost = 64       // of nested objects and lists in a payload
	namedMost = 64 << 10 // bytes of an id, an event or a challenge
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

// scanner walks through valid JSON.
type scanner struct {
	src    []byte
	pos    int
	values [][]byte // what was found, nil for what was not
}

// find gives the values of what is wanted, as they are written. Of a name that an object has twice the last counts.
func find(raw []byte, w *wanted, n int) [][]byte {
	s := scanner{src: raw, values: make([][]byte, n)}
	if len(raw) > 0 {
		s.value(w)
	}
	return s.values
}

func (s *scanner) space() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// value reads a value of which w is wanted; nil is nothing of it.
func (s *scanner) value(w *wanted) {
	first := s.space()
	start := s.pos
	switch {
	case w == nil || len(w.children) == 0:
		s.skip()
	case first == '{':
		s.object(w)
	case first == '[':
		s.list(w)
	default:
		s.skip()
	}
	if w != nil && w.at >= 0 {
		s.values[w.at] = s.src[start:s.pos]
	}
}

func (s *scanner) object(w *wanted) {
	s.pos++
	for s.space() == '"' {
		child := w.children[s.name()]
		s.forget(child) // what stood under this name before does not count
		s.space()
		s.pos++ // the colon
		s.value(child)
		if s.space() == ',' {
			s.pos++
		}
	}
	s.pos++
}

func (s *scanner) list(w *wanted) {
	s.pos++
	for i := 0; s.pos < len(s.src) && s.space() != ']'; i++ {
		s.value(w.children[strconv.Itoa(i)])
		if s.space() == ',' {
			s.pos++
		}
	}
	s.pos++
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

// name reads a member's name; "" for one that no path can have.
func (s *scanner) name() string {
	start := s.pos
	s.text()
	raw := s.src[start:s.pos]
	if len(raw) > charBytes*pathMost+2 {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	return textOf(raw)
}

// text passes over a string.
func (s *scanner) text() {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case '\\':
			s.pos++
		case '"':
			s.pos++
			return
		}
	}
}

// skip passes over a value.
func (s *scanner) skip() {
	depth := 0
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case '"':
			s.text()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return // of what the value stands in
			}
			if depth--; depth == 0 {
				s.pos++
				return
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return
			}
		}
		s.pos++
	}
}

// deeper reports whether a text that may be JSON is nested more than most levels.
func deeper(src []byte, most int) bool {
	s, depth := scanner{src: src}, 0
	for s.pos < len(src) {
		switch src[s.pos] {
		case '"':
			s.text()
			continue
		case '{', '[':
			if depth++; depth > most {
				return true
			}
		case '}', ']':
			depth--
		}
		s.pos++
	}
	return false
}

// textOf gives the text of a JSON string, with U+FFFD for what is none.
func textOf(raw []byte) string {
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
	if len(raw) == 0 || raw[0] != '"' || len(raw) > namedMost {
		return ""
	}
	return textOf(raw)
}
