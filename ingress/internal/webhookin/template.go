package webhookin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/truncate"
)

// Limits of templates, in characters.
const (
	MaxTemplate = 32_000
	maxName     = 4000 // maximum length of the event's name and of the delivery's id in a message
	maxPath     = 256
	pathDeep    = 16 // names in a path
	maxPlaces   = 200
)

// Limits of messages, in bytes.
const (
	maxMessage = 2 << 20 // as of the messages that people send
	// ownText is the part of a message that may exceed the size of its delivery: the template's text,
	// and values that it repeats. So a small delivery cannot become a large message.
	ownText      = 128 << 10
	maxPayload   = 8000    // maximum length of the whole payload as a value; the run gets more of it as data
	charBytes    = 12      // bytes of a character in JSON at most: two escapes
	escapeBytes  = 6       // bytes of JSON for a byte of text at most
	maxCompacted = 4 << 20 // bytes of an object or list that are read
	maxKeyValue  = 4096    // bytes of a value in a key; larger values are hashed
)

// Marks around values of a payload. The prompt says that text between them is untrusted.
const (
	Opening = "⟦"
	Closing = "⟧"
	more    = "…"
)

// Names that are not paths of the payload.
const (
	ofEvent    = "@event"
	ofDelivery = "@deliveryId"
	ofPayload  = "@payload"
)

// piece is a part of a template: a text, or a placeholder for a value.
type piece struct {
	text string
	name string // one of the names above; "" for a text or a path
	path []string
	at   int // index of the path's value
}

// isText reports whether the piece is literal text of the template.
func (p *piece) isText() bool { return p.name == "" && p.path == nil }

// parseTemplate parses a template: text with {{path}}.
func parseTemplate(text string) ([]piece, error) {
	var out []piece
	places := 0
	for text != "" {
		// The text before the next placeholder is literal.
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
		if places++; places > maxPlaces {
			return nil, fmt.Errorf("it has more than %d {{placeholders}}", maxPlaces)
		}
		out, text = append(out, p), after
	}
	return out, nil
}

// parsePlace parses the inside of a placeholder: a name such as @event, or a path.
func parsePlace(name string) (piece, error) {
	if name == ofEvent || name == ofDelivery || name == ofPayload {
		return piece{name: name}, nil
	}
	path, err := parsePath(name)
	return piece{path: path}, err
}

// parsePath parses names and numbers separated by dots.
func parsePath(text string) ([]string, error) {
	shown := truncate.Ellipsis(text, 64)
	if text == "" {
		return nil, fmt.Errorf("a path is empty")
	}
	// The limits bound the work for each delivery, because a hook may have many placeholders.
	if utf8.RuneCountInString(text) > maxPath {
		return nil, fmt.Errorf("the path %s has more than %d characters", shown, maxPath)
	}
	path := strings.Split(text, ".")
	if len(path) > pathDeep {
		return nil, fmt.Errorf("the path %s has more than %d names", shown, pathDeep)
	}
	for _, name := range path {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !inPath(r) }) {
			return nil, fmt.Errorf("%s is not a path: use names and numbers separated by dots, such as pull_request.labels.0.name", shown)
		}
	}
	return path, nil
}

// inPath reports whether a path's name may contain the character.
func inPath(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-$:/", r)
}

// wholePayload is the index of the payload itself.
const wholePayload = -1

// placeholderValues has the values of a delivery. A value is decoded once for all placeholders that use it.
type placeholderValues struct {
	event, deliveryID string
	payload           Payload
	values            [][]byte       // JSON of the paths, by index; nil if missing
	limit             int            // of the message, in bytes
	texts             map[int]string // texts in the message, by index
	hashes            map[int]string // texts in the key, by index
	decoded           map[int]string // texts that filters compare, by index
}

// named returns the text of a placeholder that is not a path.
func (f *placeholderValues) named(p *piece) (text string, is bool) {
	switch p.name {
	case ofEvent:
		return f.event, true
	case ofDelivery:
		return f.deliveryID, true
	}
	return "", false
}

// found returns the value of a placeholder, and its index.
func (f *placeholderValues) found(p *piece) (raw []byte, at int) {
	if p.name == ofPayload {
		return f.payload.raw, wholePayload
	}
	return f.values[p.at], p.at
}

// once returns the cached text of an index, or computes and caches it.
func once(made map[int]string, at int, text func() string) string {
	out, known := made[at]
	if !known {
		out = text()
		made[at] = out
	}
	return out
}

// shown returns the text of a placeholder in a message, truncated and without marks; "" if the
// value is missing.
func (f *placeholderValues) shown(p *piece) string {
	if text, is := f.named(p); is {
		return truncate.Ellipsis(unmarked.Replace(text), maxName)
	}
	raw, at := f.found(p)
	return once(f.texts, at, func() string {
		if p.name == ofPayload {
			return short(raw, maxPayload)
		}
		return short(raw, f.limit)
	})
}

// short returns a value as text without marks, truncated to limit bytes.
func short(raw []byte, limit int) string {
	text, whole := plain(raw, limit)
	text = unmarked.Replace(text)
	if whole && len(text) <= limit {
		return text
	}
	return truncate.Bytes(text, limit-len(more)) + more
}

// plain returns a value as text: a string unquoted, an object or list as compact JSON, null as
// nothing. If the text has more bytes than limit, plain reads only as much of the value as needed,
// and returns slightly more than limit.
func plain(raw []byte, limit int) (text string, whole bool) {
	if len(raw) == 0 || raw[0] == 'n' {
		return "", true
	}
	// The first byte of a JSON value determines its type.
	switch raw[0] {
	case '"':
		text, whole = textUpTo(raw, escapeBytes*(limit+1))
		return clean(text), whole
	case '{', '[':
		return compact(raw, limit+1)
	}
	return string(raw[:min(len(raw), limit+1)]), len(raw) <= limit+1
}

// textUpTo returns the text of a JSON string, or the beginning of a text that is longer than limit.
func textUpTo(raw []byte, limit int) (text string, whole bool) {
	const longest = 6 // maximum bytes of an escape at the end of the bytes read
	if len(raw) <= limit+longest {
		return textFor(raw), true
	}

	// The end must not be inside an escape or a character. An escape of a surrogate pair may be
	// halved, which decodes to U+FFFD.
	end := 1
	for end < limit {
		switch {
		case raw[end] != '\\':
			end++
		case raw[end+1] == 'u':
			end += longest
		default:
			end += 2
		}
	}
	for !utf8.RuneStart(raw[end]) {
		end--
	}
	return textFor(append(slices.Clone(raw[:end]), '"')), false
}

// compact returns an object or list without white space, or the beginning of a text that is longer
// than limit.
func compact(raw []byte, limit int) (text string, whole bool) {
	looked := raw[:min(len(raw), maxCompacted)]
	out := make([]byte, 0, min(len(looked), limit+utf8.UTFMax))
	quoted, escaped := false, false
	for _, c := range looked {
		// White space inside strings is kept, so the loop tracks whether it is inside one.
		if len(out) >= limit && utf8.RuneStart(c) {
			return string(out), false
		}

		if !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			continue
		}
		if c == '"' && !escaped {
			quoted = !quoted
		}
		escaped = c == '\\' && !escaped
		out = append(out, c)
	}
	return strings.ToValidUTF8(string(out), ""), len(looked) == len(raw)
}

// message fills a template. Each value is between marks, truncated, and without marks inside.
func (f *placeholderValues) message(pieces []piece) string {
	// The message ends with an ellipsis if it was truncated.
	out := writer{left: f.limit + 1}
	for i := 0; i < len(pieces) && out.left > 0; i++ {
		if p := &pieces[i]; p.isText() {
			out.text(p.text)
		} else {
			out.value(f.shown(p))
		}
	}
	return out.buf.String()
}

// unmarked removes the marks from a value, so that a payload cannot end its own untrusted part.
var unmarked = strings.NewReplacer(Opening, "", Closing, "")

// key fills a template without marks. whole is false if a value is missing.
func (f *placeholderValues) key(pieces []piece) (key string, whole bool) {
	var out strings.Builder
	for i := range pieces {
		p := &pieces[i]
		text := p.text
		if !p.isText() {
			// A key with a missing part would combine unrelated deliveries.
			if text = f.inKey(p); text == "" {
				return "", false
			}
		}
		out.WriteString(text)
	}
	return out.String(), out.Len() > 0
}

// inKey returns the part of a placeholder in a key: its text, or the hash of a large value.
func (f *placeholderValues) inKey(p *piece) string {
	if text, is := f.named(p); is {
		return text
	}
	raw, at := f.found(p)
	// A hash keeps keys short, and equal values have equal hashes.
	if len(raw) <= maxKeyValue {
		text, _ := plain(raw, maxKeyValue)
		return text
	}
	return once(f.hashes, at, func() string {
		sum := sha256.Sum256(raw)
		return "sha256:" + hex.EncodeToString(sum[:])
	})
}

// writer writes a message of limited length, and marks where it was truncated.
type writer struct {
	buf  strings.Builder
	left int // bytes left, plus one to detect an exact fit
}

// text writes a literal text of the template, or the part that fits.
func (w *writer) text(s string) {
	// One byte always stays free, so that an exact fit is not mistaken for a truncation.
	if len(s) < w.left {
		w.buf.WriteString(s)
		w.left -= len(s)
		return
	}
	w.end("", s, "")
}

// value writes a value between marks, or the part that fits. It writes nothing for an empty value.
func (w *writer) value(s string) {
	if s == "" {
		return
	}
	if n := len(s) + len(Opening) + len(Closing); n < w.left {
		w.buf.WriteString(Opening)
		w.buf.WriteString(s)
		w.buf.WriteString(Closing)
		w.left -= n
		return
	}
	w.end(Opening, s, Closing)
}

// end writes the part of the last piece that still fits. Later pieces are ignored.
func (w *writer) end(opening, s, closing string) {
	if room := w.left - 1 - len(opening) - len(more) - len(closing); room >= 0 {
		w.buf.WriteString(opening + truncate.Bytes(s, room) + more + closing)
	} else if w.left > len(more) {
		w.buf.WriteString(more)
	}
	w.left = 0
}
