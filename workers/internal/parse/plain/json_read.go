package plain

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// jsonReader reads a document value by value. It keeps only the values of a single object in
// memory.
type jsonReader struct {
	ctx    func() error
	tokens *jsontext.Decoder
	out    *parse.Writer
	head   []string // column names in the last header row
	table  string   // path of their array
}

// pair is a value with its path.
type pair struct{ path, text string }

// pairs contains values of an object that were read but not yet written.
type pairs struct {
	all     []pair
	flushed bool // some values were already written as lines, so the object cannot become a row
}

// next reads a value.
func (r *jsonReader) next(path string, into *pairs) error {
	t, err := r.tokens.ReadToken()
	if err != nil {
		return fmt.Errorf("reading a value: %w", err)
	}
	return r.value(path, t, into)
}

// value reads the value that begins with token t.
func (r *jsonReader) value(path string, t jsontext.Token, into *pairs) error {
	switch t.Kind() {
	case '[':
		return r.elements(path, into)
	case '{':
		return r.object(path, into)
	default:
		return r.add(path, scalar(t), into)
	}
}

// scalar returns the text of a value that is neither an object nor an array; null is "".
func scalar(t jsontext.Token) string {
	if t.Kind() == 'n' {
		return ""
	}
	return t.String()
}

// object reads the pairs of an object whose opening brace was read.
func (r *jsonReader) object(path string, into *pairs) error {
	for {
		t, err := r.tokens.ReadToken()
		if err != nil {
			return fmt.Errorf("reading a key: %w", err)
		}
		if t.Kind() == '}' {
			return nil
		}
		if err := r.next(join(path, t.String()), into); err != nil {
			return err
		}
	}
}

// maxPath is the maximum length, in bytes, of the path of a value. It is limited because every value is written with its path.
const maxPath = 1000

// join returns the path of the value with this name in an object. path is the object's path. If
// path is already too long, join returns path itself.
func join(path, name string) string {
	if len(path) > maxPath {
		return path
	}
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// elements reads the values of an array, or the consecutive values of a document.
func (r *jsonReader) elements(path string, into *pairs) error {
	var words []string
	size := 0
	for i := 0; ; i++ {
		// Reading a large array takes long, so cancellation is checked regularly.
		if i%1000 == 0 && r.ctx() != nil {
			return r.ctx()
		}
		t, err := r.tokens.ReadToken()
		if errors.Is(err, io.EOF) || t.Kind() == ']' {
			break
		}
		if err != nil {
			return fmt.Errorf("reading an element: %w", err)
		}

		// Scalars are joined to a list of words; objects and arrays are written separately.
		if kind := t.Kind(); kind == '{' || kind == '[' {
			if err := r.element(path, index(path, i), t, into); err != nil {
				return err
			}
			continue
		}
		if word := scalar(t); word != "" {
			words = append(words, word)
			size += len(word)
		}
		// A long array must not become one huge paragraph.
		if size > maxLines {
			if err := r.add(path, strings.Join(words, ", "), into); err != nil {
				return err
			}
			words, size = words[:0], 0
		}
	}

	if len(words) == 0 {
		return nil
	}
	return r.add(path, strings.Join(words, ", "), into)
}

// index returns the path of element i of an array. Like join, it returns path itself if path is too
// long.
func index(path string, i int) string {
	if len(path) > maxPath {
		return path
	}
	return fmt.Sprintf("%s[%d]", path, i)
}

// element reads an object or array that is an element of an array.
func (r *jsonReader) element(table, path string, opens jsontext.Token, into *pairs) error {
	if err := r.lines(into); err != nil { // write the values before it
		return err
	}

	into.flushed = true
	var own pairs
	if err := r.value(path, opens, &own); err != nil {
		return err
	}

	if opens.Kind() == '{' && !own.flushed && rowLike(own.all) {
		return r.row(table, path, own.all)
	}
	return r.lines(&own)
}

// rowLike reports whether an object's values are few and short enough for a row.
func rowLike(all []pair) bool {
	return len(all) > 0 && len(all) <= maxColumns && !slices.ContainsFunc(all, func(p pair) bool { return len(p.text) > maxCell })
}

// row writes an object as a row. It first writes a header row if the object has a name that the
// last header row does not contain.
func (r *jsonReader) row(table, path string, all []pair) error {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = strings.TrimPrefix(p.path[len(path):], ".")
	}

	// Rows of the same array share a header, so the columns of a table are named only once.
	if r.table != table || !within(names, r.head) {
		r.table, r.head = table, names
		head := slices.Clone(names)
		if table != "" {
			for i, n := range head {
				head[i] = strings.TrimSuffix(table+"[]."+n, ".")
			}
		}
		if err := r.out.Row(head, true); err != nil {
			return err
		}
	}

	cells := make([]string, len(r.head))
	for i, p := range all {
		// An object may contain the same name twice.
		if at := slices.Index(r.head, names[i]); cells[at] == "" {
			cells[at] = p.text
		} else {
			cells[at] += ", " + p.text
		}
	}
	return r.out.Row(cells, false)
}

// within reports whether head contains all names.
func within(names, head []string) bool {
	for _, n := range names {
		if !slices.Contains(head, n) {
			return false
		}
	}
	return len(head) > 0
}

// add collects a value. When there are maxPairs values, it writes them.
func (r *jsonReader) add(path, text string, into *pairs) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if into.all = append(into.all, pair{path, text}); len(into.all) >= maxPairs {
		into.flushed = true
		return r.lines(into)
	}
	return nil
}

// lines writes values as lines, each of which begins with the value's path.
func (r *jsonReader) lines(of *pairs) error {
	var b strings.Builder
	for _, p := range of.all {
		if b.Len() > 0 && b.Len()+len(p.text) > maxLines {
			if err := r.paragraph(b.String()); err != nil {
				return err
			}
			b.Reset()
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if p.path != "" {
			b.WriteString(p.path + ": ")
		}
		b.WriteString(p.text)
	}

	of.all = of.all[:0]
	return r.paragraph(b.String())
}

// paragraph writes a paragraph, which ends a table, so the next row gets a new header.
func (r *jsonReader) paragraph(text string) error {
	if text == "" {
		return nil
	}
	r.table, r.head = "", nil
	return r.out.Put(document.Block{Kind: document.Paragraph, Text: text})
}
