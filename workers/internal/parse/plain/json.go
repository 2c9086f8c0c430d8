package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// Limits of a JSON document, and of an object that is written as a row.
const (
	maxNesting = 200
	maxPairs   = 1000 // maximum number of values that are collected from one object
	maxColumns = 40
	maxCell    = 400  // bytes of a value in a row
	maxLines   = 1500 // maximum size of a paragraph whose lines are values, in bytes
)

// JSON reads JSON and JSON Lines. An object in an array is written as a row if possible. Any other
// value is written as a line that begins with the value's path. A text that is not JSON is read as
// plain text, and a note says so.
//
// Deep nesting fails with the code too_large. The whole text is checked before any of it is
// written.
func JSON(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	text, _ := charset.Decode(in.Content, in.Charset)
	values, deep := survey(text)
	if deep {
		return document.Info{}, &document.Failure{
			Code:    document.TooLarge,
			Message: fmt.Sprintf("Values in the document are nested deeper than the maximum of %d levels.", maxNesting),
		}
	}

	if values == 0 {
		info := document.Info{Notes: []string{"The file is not valid JSON, and was read as plain text."}}
		return info, writeText(ctx, text, out)
	}

	// A text with several values is JSON Lines. The values are read like the elements of an array.
	r := jsonReader{ctx: ctx.Err, tokens: tokens(text), out: out}
	var top pairs
	var err error
	if values == 1 {
		err = r.next("", &top)
	} else {
		err = r.elements("", &top)
	}
	if err != nil {
		return document.Info{}, err
	}
	return document.Info{}, r.lines(&top)
}

// tokens returns a decoder that allows duplicate names and replaces unpaired surrogates with
// U+FFFD.
func tokens(text string) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBufferString(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// survey counts the consecutive JSON values in a text. The result deep is true if the values are
// nested too deeply. The result values is 0 if the text is not JSON. A text with several values is
// not considered JSON if the first value is a scalar: such a text is, for example, a list of
// numbers.
func survey(text string) (values int, deep bool) {
	in := tokens(text)
	scalar := false
	for {
		t, err := in.ReadToken()
		if err != nil {
			if !errors.Is(err, io.EOF) || scalar && values > 1 {
				values = 0
			}
			return values, false
		}
		switch depth := in.StackDepth(); {
		case depth > maxNesting:
			return values, true
		case depth == 0:
			values++
			scalar = scalar || values == 1 && t.Kind() != '}' && t.Kind() != ']'
		}
	}
}
