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

// jsonReader reads a JSON document value by value. It keeps at most the values of one object in
// memory. It belongs to one call of JSON.
type jsonReader struct {
	// ctx returns the error of the call's context.
	ctx    func() error
	tokens *jsontext.Decoder
	out    *parse.Writer
	head   []string // column names in the last header row that was written
	table  string   // path of the array to which the last header row belongs
}

// pair is a value with its path.
type pair struct{ path, text string }

// pairs contains values of an object that have been read but not written. It has at most maxPairs
// values.
type pairs struct {
	all     []pair
	flushed bool // true if some values were already written as lines, so that the object cannot become a row
}

// next reads the next value of the document. The argument path is the path of the value, or "" for
// the document itself. The method adds the values to the list into.
func (r *jsonReader) next(path string, into *pairs) error {
	t, err := r.tokens.ReadToken()
	if err != nil {
		return fmt.Errorf("reading a value: %w", err)
	}
	return r.value(path, t, into)
}

// value reads the value whose first token is t. It reads to the end of the value. The recursion is
// bounded, because survey has checked the nesting.
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

// scalar returns the text of a value that is neither an object nor an array. The text of null is
// "".
func scalar(t jsontext.Token) string {
	if t.Kind() == 'n' {
		return ""
	}
	return t.String()
}

// object reads the pairs of an object. Its opening brace has already been read.
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

// maxPath is the maximum length of a value's path in bytes. It is limited because each value is
// written together with its path.
const maxPath = 1000

// join returns the path of the value with the given name in an object. The argument path is the
// path of the object. If this path is too long, join returns it unchanged.
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

// elements reads the values of an array, or all values of a document that contains several values.
// The opening bracket of an array has already been read. Scalars are joined with commas to lines of
// about maxLines bytes.
func (r *jsonReader) elements(path string, into *pairs) error {
	var words []string
	size := 0
	for i := 0; ; i++ {
		// Reading a large array may take long, so cancellation is checked regularly.
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

		// Scalars are collected in one line. Objects and arrays are written separately.
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
		// Without this limit, a long array would become one huge paragraph.
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

// index returns the path of the element i of an array. The argument path is the path of the array.
// If this path is too long, index returns it unchanged.
func index(path string, i int) string {
	if len(path) > maxPath {
		return path
	}
	return fmt.Sprintf("%s[%d]", path, i)
}

// element reads an object or an array that is an element of an array. The argument opens is the
// first token of the element, table is the path of the array, and path is the path of the element.
// The values in the argument into are written first, to keep the order of the document.
func (r *jsonReader) element(table, path string, opens jsontext.Token, into *pairs) error {
	if err := r.lines(into); err != nil { // write the values that precede this element
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

// rowLike reports whether the values of an object are few and short enough for a row. It returns
// false for an object without values.
func rowLike(all []pair) bool {
	return len(all) > 0 && len(all) <= maxColumns && !slices.ContainsFunc(all, func(p pair) bool { return len(p.text) > maxCell })
}

// row writes an object as a row. If the last header row lacks a name of the object, row writes a
// new header row first. If the object lacks a name of the header, the cell for this name is empty.
// Names in the header begin with the path of the array.
func (r *jsonReader) row(table, path string, all []pair) error {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = strings.TrimPrefix(p.path[len(path):], ".")
	}

	// Rows of the same array share a header row, so the column names are written only once.
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
		// If an object contains the same name several times, the values of this name are joined.
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

// add collects a value. When maxPairs values are collected, add writes them. It ignores empty
// values.
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

// lines writes values as lines. Each line begins with the path of its value. Lines are combined to
// paragraphs of about maxLines bytes. Afterwards the list in the argument of is empty.
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

// paragraph writes a paragraph. A paragraph ends a table, so the next row gets a new header row.
func (r *jsonReader) paragraph(text string) error {
	if text == "" {
		return nil
	}
	r.table, r.head = "", nil
	return r.out.Put(document.Block{Kind: document.Paragraph, Text: text})
}
