package contract

import (
	"bytes"
	"encoding/json"
)

// Canonical writes JSON so that the order of keys and white space make no difference. Numbers stay as they are written.
func Canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return raw // not reached: the body was checked before
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw // not reached: what was decoded can be encoded
	}
	return out
}
