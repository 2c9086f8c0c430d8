package webhookin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of templates and of what they make, in characters.
const (
	TemplateMost = 32_000
	messageMost  = 32_000
	valueMost    = 4000
	payloadMost  = 8000
	pathMost     = 256
	pathDeep     = 16 // names in a path
)

// What a payload brings stands between these marks, of which the model is told that they come from outside.
const (
	Opening = "⟦"
	Closing = "⟧"
	more    = "…"
)

// Names that are no paths of the payload.
const (
	ofEvent    = "@event"
	ofDelivery = "@deliveryId"
	ofPayload  = "@payload"
)

// piece is a part of a template: a text, or a place for a value.
type piece struct {
	text string
	name string // one of the names above; "" when it is a text or a path
	path []string
	at   int // of the path's value
}

func (p *piece) isText() bool { return p.name == "" && p.path == nil }

// parseTemplate reads a template: text with {{path}}, and nothing more.
func parseTemplate(text string) ([]piece, error) {
	var out []piece
	for text != "" {
		before, rest, found := strings.Cut(text, "{{")
		if before != "" {
			out = append(out, piece{text: before})
		}
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("a {{ has no }}")
		}
		p, err := parsePlace(strings.TrimSpace(inside))
		if err != nil {
			return nil, err
		}
		out, text = append(out, p), after
	}
	return out, nil
}

func parsePlace(name string) (piece, error) {
	if name == ofEvent || name == ofDelivery || name == ofPayload {
		return piece{name: name}, nil
	}
	path, err := parsePath(name)
	return piece{path: path}, err
}

// parsePath reads names and numbers with dots between.
func parsePath(text string) ([]string, error) {
	shown := cut(text, 64)
	if text == "" {
		return nil, fmt.Errorf("a path is empty")
	}
	if utf8.RuneCountInString(text) > pathMost {
		return nil, fmt.Errorf("the path %s has more than %d characters", shown, pathMost)
	}
	path := strings.Split(text, ".")
	if len(path) > pathDeep {
		return nil, fmt.Errorf("the path %s has more than %d names", shown, pathDeep)
	}
	for _, name := range path {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !inPath(r) }) {
			return nil, fmt.Errorf("%s is no path: it is names and numbers with dots between, such as pull_request.labels.0.name", shown)
		}
	}
	return path, nil
}

func inPath(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-$:/", r)
}

// filled is what places are filled with.
type filled struct {
	event, deliveryID string
	payload           Payload
	values            [][]byte
}

// shown is the text that stands for a place; "" for what is not there.
func (f *filled) shown(p *piece) string {
	switch p.name {
	case ofEvent:
		return f.event
	case ofDelivery:
		return f.deliveryID
	case ofPayload:
		return plain(f.payload.raw)
	}
	return plain(f.values[p.at])
}

// plain writes a value as text: a string as it is, an object or a list as compact JSON, null as nothing.
func plain(raw []byte) string {
	if len(raw) == 0 || raw[0] == 'n' {
		return ""
	}
	switch raw[0] {
	case '"':
		return clean(textOf(raw))
	case '{', '[':
		var out bytes.Buffer
		if json.Compact(&out, raw) != nil {
			return "" // not reached: it was valid
		}
		return out.String()
	}
	return string(raw)
}

// message fills a template: every value between the marks, cut, and without marks of its own.
func (f *filled) message(pieces []piece) string {
	out := writer{left: messageMost + 1}
	for i := range pieces {
		p := &pieces[i]
		if p.isText() {
			out.text(p.text)
			continue
		}
		most := valueMost
		if p.name == ofPayload {
			most = payloadMost
		}
		out.value(cut(unmarked.Replace(f.shown(p)), most))
	}
	return out.buf.String()
}

var unmarked = strings.NewReplacer(Opening, "", Closing, "")

// key fills a template without marks; whole is false when a value is missing.
func (f *filled) key(pieces []piece) (key string, whole bool) {
	var out strings.Builder
	for i := range pieces {
		p := &pieces[i]
		text := p.text
		if !p.isText() {
			if text = f.shown(p); text == "" {
				return "", false
			}
		}
		out.WriteString(text)
	}
	return out.String(), out.Len() > 0
}

// writer writes a message; what does not fit any more is cut, and said to be.
type writer struct {
	buf  strings.Builder
	left int // characters, and one: what fits exactly needs no cut
}

func (w *writer) text(s string) {
	if n := utf8.RuneCountInString(s); n < w.left {
		w.buf.WriteString(s)
		w.left -= n
		return
	}
	w.end(s, "")
}

func (w *writer) value(s string) {
	if s == "" {
		return
	}
	if n := utf8.RuneCountInString(s) + 2; n < w.left {
		w.buf.WriteString(Opening + s + Closing)
		w.left -= n
		return
	}
	if w.left > 4 { // room for the marks, and something within
		w.buf.WriteString(Opening)
		w.left--
		w.end(s, Closing)
		return
	}
	w.end("", "")
}

// end writes what still fits of the last piece. Whatever comes then is passed over.
func (w *writer) end(s, closing string) {
	if room := w.left - 2 - utf8.RuneCountInString(closing); room >= 0 {
		w.buf.WriteString(first(s, room) + more + closing)
	}
	w.left = 0
}

// cut shortens a text to so many characters, and says when it did.
func cut(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	return first(s, most-1) + more
}

// first gives the first n characters.
func first(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
