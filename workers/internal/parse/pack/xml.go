package pack

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/html/charset"

	"parley/workers/internal/document"
	text "parley/workers/internal/parse/charset"
)

// maxDepth is the maximum nesting depth of XML elements.
const maxDepth = 200

// Elements reads the tokens of an XML part: starts and ends of elements, and character data. It
// fails for entity declarations and for elements that are nested too deeply. Callers compare names
// by their local parts and ignore namespaces.
//
// Next returns single tokens. Each, Skip and Text consume tokens up to the end of the element that
// was started last.
type Elements struct {
	decoder *xml.Decoder
	// depth is the number of elements that have been started and not ended.
	depth int
}

// XML returns a reader of the XML in a part. It returns the errors of Read.
func (a *Archive) XML(name string) (*Elements, error) {
	content, err := a.Read(name)
	if err != nil {
		return nil, err
	}
	return NewElements(content), nil
}

// NewElements returns a reader of the tokens of an XML document in any encoding. A malformed
// document is noticed only when its tokens are read.
func NewElements(content []byte) *Elements {
	if decoded, wide := text.Wide(content); wide {
		content = []byte(decoded)
	}

	// The decoder itself supports only UTF-8, so it needs a function that converts other encodings.
	d := xml.NewDecoder(bytes.NewReader(content))
	d.CharsetReader = func(label string, r io.Reader) (io.Reader, error) {
		if len(label) > 3 && (label[:3] == "utf" || label[:3] == "UTF") { // the text has already been decoded
			return r, nil
		}
		return charset.NewReaderLabel(label, r)
	}
	return &Elements{decoder: d}
}

// Next returns the next token, or io.EOF after the last one. The token is a StartElement, an
// EndElement or CharData, and is valid only until the next call. Other errors are of type
// *document.Failure.
func (e *Elements) Next() (xml.Token, error) {
	for {
		t, err := e.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, damaged("The document is damaged: its XML is not well-formed.")
		}
		switch t := t.(type) {
		case xml.StartElement:
			if e.depth++; e.depth > maxDepth {
				return nil, &document.Failure{
					Code:    document.TooLarge,
					Message: fmt.Sprintf("Elements in the document are nested deeper than the maximum of %d levels.", maxDepth),
				}
			}
			return t, nil
		case xml.EndElement:
			e.depth--
			return t, nil
		case xml.CharData:
			return t, nil
		case xml.Directive:
			// Reject entity declarations, because entities can expand to enormous texts.
			if bytes.Contains(t, []byte("[")) || bytes.Contains(t, []byte("ENTITY")) {
				return nil, damaged("The document was rejected: its XML declares custom entities.")
			}
		}
	}
}

// Each calls f for each descendant of the element that was started last, or of the whole document.
// If f reads an element to its end, Each does not call f for the children of that element.
func (e *Elements) Each(f func(s xml.StartElement) error) error {
	for depth := e.depth; e.depth >= depth; {
		t, err := e.Next()
		if depth == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// The function f may read tokens, so check the depth again in each iteration.
		if s, ok := t.(xml.StartElement); ok {
			if err := f(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Skip skips the rest of the element that was started last, including its end.
func (e *Elements) Skip() error {
	for depth := e.depth; e.depth >= depth; {
		if _, err := e.Next(); err != nil {
			return err
		}
	}
	return nil
}

// Attr returns the value of an element's attribute with the given local name, or "".
func Attr(s xml.StartElement, name string) string {
	for _, a := range s.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// Depth returns the nesting depth of the element that was started last.
func (e *Elements) Depth() int { return e.depth }

// Text returns the character data inside the element that was started last, including that of its
// descendants. It reads the element to its end.
func (e *Elements) Text() (string, error) {
	var b bytes.Buffer
	for depth := e.depth; e.depth >= depth; {
		t, err := e.Next()
		if err != nil {
			return "", err
		}
		if c, ok := t.(xml.CharData); ok {
			b.Write(c)
		}
	}
	return b.String(), nil
}
