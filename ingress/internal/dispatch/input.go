package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"parley/shared/domain"
)

// input returns the run's input, the JSON of a domain.Input, with minimal escapes and without
// spaces between tokens. Escaped for HTML, a message of 2 MiB could take 12 MiB. Data is valid JSON
// and is copied: a JSON encoder would parse it again.
func (s *Submission) input() ([]byte, error) {
	// Most requests have only a message and data. Their input is written here, without an encoder. Lists
	// of runs read its beginning; see domain.ReadQuestion.
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
	out, _ = jsontext.AppendQuote(append(out, `"message":`...), s.Message) // it replaces invalid UTF-8, like encoding/json
	if len(s.Data) > 0 {
		out = appendCompact(append(out, `,"data":`...), s.Data)
	}
	if len(s.History) == 0 && s.Instructions == "" && s.Echo == nil && options.IsZero() {
		return append(out, '}'), nil
	}

	// The other fields are rare, and an encoder writes them. Its output begins with an empty
	// message, which is cut off, because the message is already written.
	var rest bytes.Buffer
	enc := json.NewEncoder(&rest)
	enc.SetEscapeHTML(false)
	further := domain.Input{History: s.History, Instructions: s.Instructions, Echo: s.Echo, RunOptions: options}
	if err := enc.Encode(further); err != nil {
		return nil, fmt.Errorf("writing input: %w", err)
	}
	return append(out, bytes.TrimSpace(bytes.TrimPrefix(rest.Bytes(), []byte(`{"message":""`)))...), nil
}

// appendCompact appends valid JSON without the spaces between its tokens.
func appendCompact(to, value []byte) []byte {
	copied, quoted := 0, false

	// The parts between spaces are copied as they are. Spaces inside strings are kept.
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++ // the escaped character
		case c == '"':
			quoted = !quoted
		case !quoted && c <= ' ':
			to, copied = append(to, value[copied:i]...), i+1
		}
	}
	return append(to, value[copied:]...)
}
