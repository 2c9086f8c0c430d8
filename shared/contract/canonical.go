package contract

import (
	"bytes"
	"encoding/json"
)

// Canonical returns JSON with sorted keys and without insignificant white space. Numbers keep their
// notation.
func Canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}

	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return raw // unreachable: the JSON was validated before
	}

	// Marshal sorts the keys of maps.
	out, err := json.Marshal(v)
	if err != nil {
		return raw // unreachable: decoded JSON can be encoded
	}

	return out
}
