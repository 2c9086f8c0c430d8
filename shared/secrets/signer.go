package secrets

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrUnsigned means that no key has signed the token together with this body.
var ErrUnsigned = errors.New("invalid signature")

const (
	// purpose from which the keys are derived; another purpose results in other keys
	signerPurpose = "parley capability v1"
	maxToken      = 8 << 10 // characters; longer tokens are not decoded
)

// Signer signs claims together with a body, so that neither is valid without the other. The
// claims are readable by anyone.
type Signer struct {
	keys [][]byte // the first key signs; every key verifies
}

// NewSigner derives its keys from the setting SECRETS_KEY, in the format of NewBox. To rotate a
// key, the operator first adds the new key at the end of the setting. The new key may become the
// first key only after every process has it.
func NewSigner(setting string) (*Signer, error) {
	s := &Signer{}
	for n, text := range strings.Split(setting, ",") {
		secret, err := readKey(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("reading secrets key %d: %w", n+1, err)
		}
		// A separate key is derived, so that knowledge about one use of the setting reveals nothing
		// about the other uses.
		key, err := hkdf.Key(sha256.New, secret, nil, signerPurpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("deriving signing key %d: %w", n+1, err)
		}
		s.keys = append(s.keys, key)
	}

	return s, nil
}

// Sign returns a token that binds the claims to body: base64url(claims) + "." +
// base64url(HMAC-SHA256).
func (s *Signer) Sign(claims, body []byte) string {
	return encodeToken(claims) + "." + encodeToken(sign(s.keys[0], claims, body))
}

// Verify returns the claims of a token that Sign has created for this body with any of the keys.
// For other tokens it returns ErrUnsigned.
func (s *Signer) Verify(token string, body []byte) (claims []byte, err error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // the decoder would ignore line breaks
		return nil, ErrUnsigned
	}

	first, second, found := strings.Cut(token, ".")
	claims, claimsErr := base64.RawURLEncoding.Strict().DecodeString(first)
	mac, macErr := base64.RawURLEncoding.Strict().DecodeString(second)
	if !found || claimsErr != nil || macErr != nil {
		return nil, ErrUnsigned
	}

	for _, key := range s.keys {
		// The comparison takes the same time for all signatures, so its duration reveals nothing.
		if hmac.Equal(mac, sign(key, claims, body)) {
			return claims, nil
		}
	}

	return nil, ErrUnsigned
}

// sign computes the signature. Its input is unambiguous, because the body's hash at the end has a
// fixed length.
func sign(key, claims, body []byte) []byte {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(claims) // a hash never fails
	_, _ = mac.Write(sum[:]) // a hash never fails
	return mac.Sum(nil)
}

// encodeToken encodes a part of a token.
func encodeToken(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
