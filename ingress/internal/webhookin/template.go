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

// These constants limit templates, in characters.
const (
	// MaxTemplate is the maximum length of a template.
	MaxTemplate = 32_000
	maxName     = 4000 // maximum length of an event's name and of a delivery's id in a message, in characters
	maxPath     = 256  // maximum length of a path
	pathDeep    = 16   // maximum number of names in a path
	// maxPlaceholders is the maximum number of placeholders in a template.
	maxPlaceholders = 200
)

// These constants limit messages, in bytes.
const (
	maxMessage = 2 << 20 // maximum size of a message; messages of people have the same limit
	// usualMessage is the size for which memory is allocated in advance.
	usualMessage = 512
	// ownText is the number of bytes by which a message may be larger than its delivery. The
	// additional bytes are for the template's text and for values that occur in it several times.
	// The limit prevents a small delivery from becoming a large message.
	ownText      = 128 << 10
	maxPayload   = 8000    // maximum size of the whole payload as a value in the message, in bytes; the run's data may contain more of it
	charBytes    = 12      // maximum size of a character in JSON, in bytes: two escapes of six bytes
	escapeBytes  = 6       // maximum size of JSON for one byte of text, in bytes
	maxCompacted = 4 << 20 // maximum number of bytes of an object or a list that are read
	maxKeyValue  = 4096    // maximum size of a value in a key, in bytes; a larger value is hashed
)

// These constants are the marks around values of a payload. The system prompt says that text
// between them is untrusted.
const (
	// Opening and Closing are the marks before and after a value.
	Opening = "⟦"
	Closing = "⟧"
	// more is the mark at the end of a truncated text.
	more = "…"
)

// These constants are the names of placeholders that do not refer to the payload.
const (
	ofEvent    = "@event"
	ofDelivery = "@deliveryId"
	ofPayload  = "@payload"
)

// piece is a part of a template: either literal text or a placeholder. Exactly one of text, name
// and path is set.
type piece struct {
	// Literal text.
	text string
	name string // one of the names above; "" for literal text or a path
	// Names and indexes on the way to the value in the payload.
	path []string
	at   int // index of the value at the path
}

// isText reports whether the piece is literal text.
func (p *piece) isText() bool { return p.name == "" && p.path == nil }

// parseTemplate parses a template, which is text with placeholders such as {{path}}. An empty text
// has no pieces. White space around the path is ignored. The error is shown to the person who
// configures the hook.
func parseTemplate(text string) ([]piece, error) {
	var out []piece
	placeholders := 0
	for text != "" {
		// The text before the next placeholder is literal text.
		before, rest, found := strings.Cut(text, "{{")
		if before != "" {
			out = append(out, piece{text: before})
		}
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("a {{ has no matching }}")
		}

		p, err := parsePlaceholder(strings.TrimSpace(inside))
		if err != nil {
			return nil, err
		}
		if placeholders++; placeholders > maxPlaceholders {
			return nil, fmt.Errorf("must have at most %d placeholders", maxPlaceholders)
		}
		out, text = append(out, p), after
	}
	return out, nil
}

// parsePlaceholder parses the inside of a placeholder, which is a name such as @event or a path.
func parsePlaceholder(name string) (piece, error) {
	if name == ofEvent || name == ofDelivery || name == ofPayload {
		return piece{name: name}, nil
	}
	path, err := parsePath(name)
	return piece{path: path}, err
}

// parsePath parses a path, which consists of names and numbers separated by dots. It has at most
// maxPath characters and pathDeep parts.
func parsePath(text string) ([]string, error) {
	shown := truncate.Ellipsis(text, 64)
	if text == "" {
		return nil, fmt.Errorf("the path of a placeholder is empty")
	}
	// The length of a path is limited, because a hook may have many placeholders, and each delivery
	// reads all of them.
	if utf8.RuneCountInString(text) > maxPath {
		return nil, fmt.Errorf("the path %s has more than %d characters", shown, maxPath)
	}
	path := strings.Split(text, ".")
	if len(path) > pathDeep {
		return nil, fmt.Errorf("the path %s has more than %d parts", shown, pathDeep)
	}
	for _, name := range path {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !inPath(r) }) {
			return nil, fmt.Errorf("%s is not a valid path: use names and numbers separated by dots, such as pull_request.labels.0.name", shown)
		}
	}
	return path, nil
}

// inPath reports whether a name in a path may contain the character. It excludes braces and spaces,
// so a path cannot contain the end of its placeholder.
func inPath(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-$:/", r)
}

// wholePayload is the index that stands for the payload as a whole.
const wholePayload = -1

// placeholderValues contains the values of a delivery. Each value is decoded at most once. One
// goroutine uses a placeholderValues, for one delivery.
type placeholderValues struct {
	event, deliveryID string
	payload           Payload
	values            [][]byte // JSON of the values at the paths, by index; nil if missing
	limit             int      // maximum size of the message in bytes

	// Caches of the function once, which creates them.
	texts   map[int]string // texts for the message, by index
	hashes  map[int]string // texts for the key, by index
	decoded map[int]string // texts for the comparisons of filters, by index
}

// named returns the text of a placeholder that has a name such as @event. For a path, it returns
// false.
func (f *placeholderValues) named(p *piece) (text string, is bool) {
	switch p.name {
	case ofEvent:
		return f.event, true
	case ofDelivery:
		return f.deliveryID, true
	}
	return "", false
}

// found returns the value of a placeholder in the delivery, and the index of that value. raw is nil
// if the value is missing. The piece must not be literal text or a name that the method named
// knows.
func (f *placeholderValues) found(p *piece) (raw []byte, at int) {
	if p.name == ofPayload {
		return f.payload.raw, wholePayload
	}
	return f.values[p.at], p.at
}

// once returns the cached text for an index. If there is none, it computes the text and caches it.
// The function text is called at most once for each index.
func once(made *map[int]string, at int, text func() string) string {
	out, known := (*made)[at]
	if !known {
		if *made == nil {
			*made = map[int]string{}
		}
		out = text()
		(*made)[at] = out
	}
	return out
}

// shown returns the text of a placeholder in a message. The text contains no marks, and is
// truncated if it is long. It is "" if the value is missing. Values of the payload are cached,
// because a template may contain a value several times.
func (f *placeholderValues) shown(p *piece) string {
	if text, is := f.named(p); is {
		return truncate.Ellipsis(withoutMarks(text), maxName)
	}
	raw, at := f.found(p)
	return once(&f.texts, at, func() string {
		if p.name == ofPayload {
			return short(raw, maxPayload)
		}
		return short(raw, f.limit)
	})
}

// short returns a value as text without the marks of an enclosure, truncated to limit bytes. A
// truncated text ends with an ellipsis within the limit.
func short(raw []byte, limit int) string {
	text, whole := plain(raw, limit)
	text = withoutMarks(text)
	if whole && len(text) <= limit {
		return text
	}
	return truncate.Bytes(text, limit-len(more)) + more
}

// plain returns a value as text: a string without quotes, an object or a list as compact JSON, and
// null as "". If the text would have more than limit bytes, plain reads only as much of the value
// as it needs, and returns slightly more than limit. whole is false if the text is incomplete.
func plain(raw []byte, limit int) (text string, whole bool) {
	if len(raw) == 0 || raw[0] == 'n' {
		return "", true
	}
	// The first byte of a JSON value shows the type of the value.
	switch raw[0] {
	case '"':
		text, whole = textUpTo(raw, escapeBytes*(limit+1))
		return clean(text), whole
	case '{', '[':
		return compact(raw, limit+1)
	}
	return string(raw[:min(len(raw), limit+1)]), len(raw) <= limit+1
}

// textUpTo returns the text of a JSON string. If the text is longer than limit, it returns the
// beginning. limit is in bytes of JSON. raw must be a valid JSON string.
func textUpTo(raw []byte, limit int) (text string, whole bool) {
	const longest = 6 // maximum size in bytes of an escape at the end of the part that is read
	if len(raw) <= limit+longest {
		return textFor(raw), true
	}

	// The part must not end within an escape or a character. It may end between the two escapes of
	// a surrogate pair, which then becomes U+FFFD.
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

// compact returns an object or a list without white space. If the text is longer than limit, it
// returns the beginning. At most maxCompacted bytes are read, so that white space cannot cost much
// time. An incomplete result is not valid JSON.
func compact(raw []byte, limit int) (text string, whole bool) {
	looked := raw[:min(len(raw), maxCompacted)]
	out := make([]byte, 0, min(len(looked), limit+utf8.UTFMax))
	quoted, escaped := false, false
	for _, c := range looked {
		if len(out) >= limit && utf8.RuneStart(c) {
			return string(out), false
		}

		// White space within strings is kept, so the loop tracks whether it is within a string.
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

// message fills the template of a message. Each value is enclosed in marks, truncated, and contains
// no marks itself. The message is empty if the template is empty, or if it has no literal text and
// all its values are missing. A message over the limit is truncated and ends with an ellipsis.
func (f *placeholderValues) message(pieces []piece) string {
	// A message that is truncated ends with an ellipsis.
	out := writer{left: f.limit + 1}
	out.buf.Grow(usualMessage)
	for i := 0; i < len(pieces) && out.left > 0; i++ {
		if p := &pieces[i]; p.isText() {
			out.text(p.text)
		} else {
			out.value(f.shown(p))
		}
	}
	return out.buf.String()
}

// withoutMarks removes the marks from a value, so that a sender cannot end the enclosure.
func withoutMarks(text string) string {
	// A Replacer copies each text, but few texts contain marks.
	if !strings.Contains(text, Opening) && !strings.Contains(text, Closing) {
		return text
	}
	return unmarked.Replace(text)
}

var unmarked = strings.NewReplacer(Opening, "", Closing, "")

// key fills the template of a key, without marks. whole is false if a value is missing. Marks are
// not needed, because no model reads the key.
func (f *placeholderValues) key(pieces []piece) (key string, whole bool) {
	var out strings.Builder
	for i := range pieces {
		p := &pieces[i]
		text := p.text
		if !p.isText() {
			// A key in which a value is missing would coalesce unrelated deliveries, so it is not
			// used.
			if text = f.inKey(p); text == "" {
				return "", false
			}
		}
		out.WriteString(text)
	}
	return out.String(), out.Len() > 0
}

// inKey returns the text of a placeholder in a key. A large value is replaced by its hash. The
// result is "" if the value is missing.
func (f *placeholderValues) inKey(p *piece) string {
	if text, is := f.named(p); is {
		return text
	}
	raw, at := f.found(p)
	// A hash is short, and equal values have equal hashes.
	if len(raw) <= maxKeyValue {
		text, _ := plain(raw, maxKeyValue)
		return text
	}
	return once(&f.hashes, at, func() string {
		sum := sha256.Sum256(raw)
		return "sha256:" + hex.EncodeToString(sum[:])
	})
}

// writer writes a message of limited length. If the message is truncated, the writer marks the end.
// The user of a writer sets the field left once, and then adds the pieces in order.
type writer struct {
	buf  strings.Builder
	left int // number of bytes that may still be written, plus one to detect a message that fits exactly
}

// text writes literal text of the template, or as much of it as fits. After a truncation, left is 0
// and nothing more is written.
func (w *writer) text(s string) {
	// The last byte always stays free, so that a message that fits exactly is not marked as
	// truncated.
	if len(s) < w.left {
		w.buf.WriteString(s)
		w.left -= len(s)
		return
	}
	w.end("", s, "")
}

// value writes a value between marks, or as much of it as fits. It writes nothing for an empty
// value. A truncated value keeps both marks, so the enclosure is always closed.
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

// end writes the beginning of a piece that does not fit. Later pieces are ignored. end writes an
// ellipsis if nothing else fits, and nothing if not even the ellipsis fits.
func (w *writer) end(opening, s, closing string) {
	if room := w.left - 1 - len(opening) - len(more) - len(closing); room >= 0 {
		w.buf.WriteString(opening + truncate.Bytes(s, room) + more + closing)
	} else if w.left > len(more) {
		w.buf.WriteString(more)
	}
	w.left = 0
}
