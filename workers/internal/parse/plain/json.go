package plain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// What a JSON document may be, and what makes a row of an object.
const (
	maxNesting = 200
	maxPairs   = 1000 // of an object, before they are told
	maxColumns = 40
	maxCell    = 400  // bytes of a value in a row
	maxLines   = 1500 // bytes of a paragraph of values
)

// JSON reads JSON and JSON Lines: an object of an array is a row, any other value a line that begins with its path.
func JSON(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	text, _ := charset.Decode(in.Content, in.Charset)
	if deep(text) {
		return document.Info{}, &document.Failure{
			Code:    document.TooLarge,
			Message: fmt.Sprintf("Values of the document stand more than %d deep in each other, which is deeper than is read.", maxNesting),
		}
	}
	values := count(text)
	if values == 0 {
		info := document.Info{Notes: []string{"The file is not valid JSON, and was read as plain text."}}
		return info, tellText(ctx, text, out)
	}
	r := reading{ctx: ctx.Err, decoder: json.NewDecoder(strings.NewReader(text)), out: out}
	r.decoder.UseNumber()
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

// deep reports nesting beyond the limit, without following it.
func deep(text string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// count is how many values there are, one behind the other; 0 when it is no JSON.
func count(text string) int {
	if json.Valid([]byte(text)) {
		return 1
	}
	d := json.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		var v json.RawMessage
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			return 0
		}
		if v = bytes.TrimSpace(v); n == 0 && len(v) > 0 && v[0] != '{' && v[0] != '[' { // text that begins with a number
			return 0
		}
	}
}
