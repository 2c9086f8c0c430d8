package webhookin

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxDepth = 64       // maximum nesting depth of objects and lists in a payload
	maxNamed = 64 << 10 // maximum size of an id, an event name or a challenge, in bytes
)

// wanted is a tree of the paths in the rules. With it, a payload is read only once for all paths.
// Other parts of the payload are skipped. The tree is built once for each hook and then only read.
type wanted struct {
	children map[string]*wanted
	at       int // index of the value; negative if no path ends at this node
}

// newWanted returns a tree without paths.
func newWanted() *wanted { return &wanted{at: -1} }

// add adds a path and returns the index of its value. Equal paths have the same index. The argument
// next is the index for a path that is not in the tree yet.
func (w *wanted) add(path []string, next int) (at int) {
	for _, key := range path {
		child := w.children[key]
		// Paths that begin with the same names share nodes of the tree.
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

// newReader returns a tokenizer for a payload. It accepts duplicate names and incomplete surrogate
// pairs. For a duplicate name, find uses the last value. textFor replaces an incomplete pair with
// U+FFFD. newReader reads src without a copy.
func newReader(src []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// isPayload reports whether a body is one JSON value with at most maxDepth levels. An empty body is
// not a payload.
func isPayload(body []byte) bool {
	// Most bodies have too few brackets to be too deep, and bytes are counted fast.
	if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > maxDepth && tooDeep(body) {
		return false
	}
	return jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// tooDeep reports whether a body has more than maxDepth levels of objects and lists. The depth is
// limited, because code that reads the payload later uses stack for each level. The result has no
// meaning if the body is not JSON.
func tooDeep(body []byte) bool {
	s, depth := scanner{src: body}, 0
	for s.at < len(body) {
		switch body[s.at] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return true
			}
		case '}', ']':
			depth--
		}
		s.at++
	}
	return false
}

// scanner reads the wanted values of a payload. Its reads cannot fail, because isPayload has
// checked the syntax. It therefore looks only for the ends of strings, objects and lists, which
// takes less time than a tokenizer. A scanner belongs to one call of find.
type scanner struct {
	src    []byte
	at     int      // position in src
	values [][]byte // JSON of the values that were found, by index; nil if missing
}

// find returns the JSON of the wanted values. If an object repeats a name, the last value is used.
// The results share memory with raw. raw may be nil; all values are then missing. Otherwise raw must
// be valid JSON.
func find(raw []byte, w *wanted, n int) [][]byte {
	s := scanner{src: raw, values: make([][]byte, n)}
	if s.next() != 0 {
		s.value(w)
	}
	return s.values
}

// next skips spaces, colons and commas, and returns the next byte. It returns 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.src); s.at++ {
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\r', '\n', ':', ',':
		default:
			return c
		}
	}
	return 0
}

// value reads the value at the current position. w is the subtree of paths that begin with this
// value. If w is nil, the value is skipped. A value at which a path ends is stored, and its members
// are read as well if longer paths begin with it.
func (s *scanner) value(w *wanted) {
	begin := s.at
	switch first := s.src[begin]; {
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
		s.values[w.at] = s.src[begin:s.at]
	}
}

// skip skips the value at the current position.
func (s *scanner) skip() {
	for depth := 0; s.at < len(s.src); {
		switch s.src[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ' ', '\t', '\r', '\n', ':', ',':
			s.at++ // within an object or a list
		default:
			s.skipLiteral()
		}
		if depth == 0 {
			return
		}
	}
}

// skipString skips the string at the current position. If the string has no end, skipString skips
// the rest of the payload.
func (s *scanner) skipString() {
	for s.at++; ; {
		n := bytes.IndexByte(s.src[s.at:], '"')
		if n < 0 {
			s.at = len(s.src)
			return
		}
		s.at += n + 1

		// A quotation mark after an odd number of backslashes is escaped.
		escaped := false
		for i := s.at - 2; s.src[i] == '\\'; i-- {
			escaped = !escaped
		}
		if !escaped {
			return
		}
	}
}

// skipLiteral skips the number, true, false or null at the current position.
func (s *scanner) skipLiteral() {
	for ; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return
		}
	}
}

// object reads an object. It skips members that no rule uses, and does not decode them.
func (s *scanner) object(w *wanted) {
	s.at++ // the opening brace
	for s.next() == '"' {
		begin := s.at
		s.skipString()
		child := w.child(s.src[begin:s.at])
		s.forget(child) // drops the value of an earlier member with the same name
		s.next()
		s.value(child)
	}
	s.at++ // the closing brace
}

// child returns the subtree for a member. name is quoted, as in the payload. child returns nil for
// a name that no path contains. A name that is longer than any path is not decoded.
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

// list reads a list. The name of an element in a path is its index, as in labels.0.name. The method
// list skips the elements that no rule uses.
func (s *scanner) list(w *wanted) {
	s.at++ // the opening bracket
	for i := 0; s.next() != ']'; i++ {
		// If no rule uses the index, the subtree is nil and the element is skipped.
		s.value(w.children[strconv.Itoa(i)])
	}
	s.at++ // the closing bracket
}

// forget removes the values of a subtree. It does nothing if the subtree is nil. Values of an
// earlier member must not be mixed with those of a later member with the same name.
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

// textFor decodes a JSON string. It replaces invalid parts with U+FFFD. It returns "" if raw is not
// a string.
func textFor(raw []byte) string {
	// Most strings have no escapes, and the payload has valid UTF-8.
	if n := len(raw); n > 1 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1])
	}

	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// text returns the string at a path of the payload. It returns "" if there is no string or if the
// string is too long for a name. path must be valid.
func (p Payload) text(path string) string {
	keys, err := parsePath(path)
	if err != nil {
		return "" // the paths are constants of this package, so this is unreachable
	}

	w := newWanted()
	at := w.add(keys, 0)
	raw := find(p.raw, w, 1)[at]
	// Ids and names are short, so a longer text is ignored.
	if len(raw) == 0 || raw[0] != '"' || len(raw) > maxNamed {
		return ""
	}
	return textFor(raw)
}
