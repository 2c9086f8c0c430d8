package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// ClockLeeway is the tolerated difference between the clocks of the signer and the verifier.
const ClockLeeway = 5 * time.Second

// errTrailing means that the claims are followed by more text.
var errTrailing = errors.New("unexpected text after the signed claims")

// ReadClaims decodes claims whose signature has been verified. Unknown fields are an error, because
// they may be restrictions that this release does not support.
func ReadClaims(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}

	// Decode stops after the first JSON value. Text after that value is covered by the signature,
	// but has no defined meaning.
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// Expired reports whether claims have expired, with tolerance for clock differences.
func Expired(expires time.Time) bool { return !expires.Add(ClockLeeway).After(time.Now()) }
