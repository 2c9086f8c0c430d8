package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// ClockLeeway is how far the clocks of whoever signs and whoever verifies may be apart.
const ClockLeeway = 5 * time.Second

var errTrailing = errors.New("unexpected text after the claims")

// ReadClaims reads claims whose signature holds. What this release does not know of them might say what is not allowed: it is an error.
func ReadClaims(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// Expired reports whether claims are over, also by a clock that is a little behind.
func Expired(expires time.Time) bool { return !expires.Add(ClockLeeway).After(time.Now()) }
