package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"parley/shared/domain"
)

// input returns the JSON of the run's input, a domain.Input. It escapes only the characters that
// JSON requires: with escaping for HTML, a message of 2 MiB could take 12 MiB. It copies Data
// without insignificant spaces. Data is valid JSON, and an encoder would parse it once more.
func (s *Submission) input() ([]byte, error) {
	// Most requests have only a message and data, which are written without an encoder. The order
	// of the fields matters, because lists of runs parse only the beginning of the input; see
	// domain.ReadQuestion.
	out := append(make([]byte, 0, len(s.Message)+len(s.Data)+64), '{')
	if s.Unstored {
		out = append(out, domain.UnstoredInput[1:]...)
	}
	options := s.Options
	if len(options.Attachments) > 0 {
		list, err := json.Marshal(options.Attachments)
		if err != nil {
			return nil, fmt.Errorf("writing attachments: %w", err)
		}
		out = append(append(append(out, domain.AttachmentsKey...), list...), ',')
		options.Attachments = nil
	}
	out, _ = jsontext.AppendQuote(append(out, `"message":`...), s.Message) // replaces invalid UTF-8, like encoding/json
	if len(s.Data) > 0 {
		out = appendCompact(append(out, `,"data":`...), s.Data)
	}
	if len(s.History) == 0 && s.Instructions == "" && s.Echo == nil && options.IsZero() {
		return append(out, '}'), nil
	}

	// An encoder writes the other fields, which are rare. Remove the empty message at the beginning
	// of its output, because the message is already written.
	var rest bytes.Buffer
	enc := json.NewEncoder(&rest)
	enc.SetEscapeHTML(false)
	further := domain.Input{History: s.History, Instructions: s.Instructions, Echo: s.Echo, RunOptions: options}
	if err := enc.Encode(further); err != nil {
		return nil, fmt.Errorf("writing input: %w", err)
	}
	return append(out, bytes.TrimSpace(bytes.TrimPrefix(rest.Bytes(), []byte(`{"message":""`)))...), nil
}

// appendCompact appends valid JSON without the spaces between tokens. value must be valid JSON.
func appendCompact(to, value []byte) []byte {
	copied := 0

	// Text between spaces is copied unchanged, and spaces within strings are kept.
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			for i++; value[i] != '"'; i++ {
				if value[i] == '\\' {
					i++ // skips the escaped character
				}
			}
		case c <= ' ':
			to, copied = append(to, value[copied:i]...), i+1
		}
	}
	return append(to, value[copied:]...)
}
