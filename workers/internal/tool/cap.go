package tool

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
)

// What a call may give back: more would crowd everything else out of the prompt.
const (
	maxOutput     = 64 << 10 // bytes of JSON
	maxSources    = 20
	maxPassage    = 4_000    // characters
	maxPassages   = 48 << 10 // bytes of all passages
	maxTitle      = 500      // characters
	maxSourceAddr = 2_048    // bytes
)

// cutOutput takes the place of an output that is too large.
type cutOutput struct {
	Truncated  bool   `json:"truncated"`
	TotalBytes int    `json:"totalBytes"`
	Text       string `json:"text"`
}

// Cap bounds a result. An output over 64 KiB becomes {"truncated":true,"totalBytes":N,"text":"its first part"}; of
// sources at most 20 stay, with passages of at most 4,000 characters and 48 KiB together. What is left is valid UTF-8.
func Cap(r Result) Result {
	return Result{Output: capOutput(r.Output), Sources: capSources(r.Sources)}
}

func capOutput(output json.RawMessage) json.RawMessage {
	if len(output) == 0 {
		return json.RawMessage("null")
	}
	if !utf8.Valid(output) {
		output = bytes.ToValidUTF8(output, []byte("\uFFFD"))
	}
	if len(output) <= maxOutput {
		return output
	}
	text := string(output)
	if output[0] == '"' { // a text is shown as what it is
		_ = json.Unmarshal(output, &text) // else as it was written
	}
	cut := cutOutput{Truncated: true, TotalBytes: len(output)}
	for limit := maxOutput; ; {
		cut.Text = cutBytes(text, limit)
		short := encode(cut)
		if len(short) <= maxOutput {
			return short
		}
		limit = limit*maxOutput/len(short) - 64 // by as much as encoding makes it longer
	}
}

// encode writes JSON without the escapes that only HTML needs.
func encode(v cutOutput) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // it has nothing that JSON has not
		return json.RawMessage(`{"truncated":true}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func capSources(sources []domain.Citation) []domain.Citation {
	var kept []domain.Citation
	room := maxPassages
	for _, s := range sources {
		if len(kept) == maxSources || room <= 0 {
			break
		}
		if len(s.URL) > maxSourceAddr { // cut it would lead elsewhere
			continue
		}
		s.Title = CutRunes(strings.ToValidUTF8(s.Title, "\uFFFD"), maxTitle)
		s.CitedText = cutBytes(CutRunes(strings.ToValidUTF8(s.CitedText, "\uFFFD"), maxPassage), room)
		room -= len(s.CitedText)
		kept = append(kept, s)
	}
	return kept
}

// cutBytes gives the longest part at the beginning of text that has at most so many bytes and no half character.
func cutBytes(text string, maximum int) string {
	if len(text) <= maximum {
		return text
	}
	maximum = max(maximum, 0)
	for maximum > 0 && !utf8.RuneStart(text[maximum]) {
		maximum--
	}
	return text[:maximum]
}

// CutRunes gives the first characters of a text.
func CutRunes(text string, maximum int) string {
	for n := range text {
		if maximum == 0 {
			return text[:n]
		}
		maximum--
	}
	return text
}
