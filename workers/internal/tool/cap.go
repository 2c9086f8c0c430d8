package tool

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/shared/truncate"
)

// Limits of a tool's result. A larger result would leave too little room for the rest of the
// prompt.
const (
	maxOutput     = 64 << 10 // bytes as JSON
	maxSources    = 20
	maxPassage    = 4_000    // characters
	maxPassages   = 48 << 10 // bytes of all passages
	maxTitle      = 500      // characters
	maxSourceAddr = 2_048    // bytes
)

// truncatedOutput replaces an output that is too large.
type truncatedOutput struct {
	Truncated  bool   `json:"truncated"`
	TotalBytes int    `json:"totalBytes"`
	Text       string `json:"text"`
}

// Cap limits the size of a result. An output over 64 KiB becomes
// {"truncated":true,"totalBytes":N,"text":"its first part"}. At most 20 sources remain. Each
// passage has at most 4,000 characters, and all passages together have at most 48 KiB. The result
// is valid UTF-8.
func Cap(r Result) Result {
	return Result{Output: capOutput(r.Output), Sources: capSources(r.Sources)}
}

// capOutput truncates an output to maxOutput bytes. It replaces an empty output with null.
func capOutput(output json.RawMessage) json.RawMessage {
	if len(output) == 0 {
		return json.RawMessage("null")
	}
	// The output is stored in a JSON column, which rejects invalid UTF-8.
	if !utf8.Valid(output) {
		output = bytes.ToValidUTF8(output, []byte("\uFFFD"))
	}
	if len(output) <= maxOutput {
		return output
	}

	text := string(output)
	if output[0] == '"' { // the text of a JSON string is shown without quotes
		_ = json.Unmarshal(output, &text) // a text that cannot be decoded keeps its quotes
	}

	// JSON escapes enlarge the text, so reduce it until the encoded output fits.
	cut := truncatedOutput{Truncated: true, TotalBytes: len(output)}
	for limit := maxOutput; ; {
		cut.Text = truncate.Bytes(text, limit)
		short := encode(cut)
		if len(short) <= maxOutput {
			return short
		}
		limit = limit*maxOutput/len(short) - 64 // reduce the text in proportion to its size as JSON
	}
}

// encode encodes JSON without escaping HTML characters.
func encode(v truncatedOutput) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // cannot happen, because all values can be encoded as JSON
		return json.RawMessage(`{"truncated":true}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// capSources drops sources and truncates passages that exceed the limits.
func capSources(sources []domain.Citation) []domain.Citation {
	var kept []domain.Citation
	room := maxPassages
	for _, s := range sources {
		// Backends return the best sources first, so the last ones are dropped.
		if len(kept) == maxSources || room <= 0 {
			break
		}
		if len(s.URL) > maxSourceAddr { // long addresses are dropped, because a truncated address would lead to another page
			continue
		}
		s.Title = truncate.Runes(strings.ToValidUTF8(s.Title, "\uFFFD"), maxTitle)
		s.CitedText = truncate.Bytes(truncate.Runes(strings.ToValidUTF8(s.CitedText, "\uFFFD"), maxPassage), room)
		room -= len(s.CitedText)
		kept = append(kept, s)
	}
	return kept
}
