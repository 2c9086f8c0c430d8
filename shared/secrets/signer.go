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

// ErrUnsigned is returned for a token that no key of the ring has signed for that body.
var ErrUnsigned = errors.New("invalid signature")

const (
	signerPurpose = "parley capability v1"
	maxToken      = 8 << 10 // characters; what is longer is not even decoded
)

// Signer signs claims together with a body, so that neither holds without the other. Anyone may read the claims.
type Signer struct {
	keys [][]byte // the first signs, all verify
}

// NewSigner derives its keys from the setting SECRETS_KEY, which is read as NewBox reads it. A key is rotated as a
// Box's is: once every process knows the new one, it is put first.
func NewSigner(setting string) (*Signer, error) {
	s := &Signer{}
	for n, text := range strings.Split(setting, ",") {
		secret, err := readKey(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("reading secrets key %d: %w", n+1, err)
		}
		// A key of its own: what is learned of one use of the setting says nothing about another.
		key, err := hkdf.Key(sha256.New, secret, nil, signerPurpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("deriving signing key %d: %w", n+1, err)
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// Sign gives a token for claims that go with body: base64url(claims) + "." + base64url(HMAC-SHA256).
func (s *Signer) Sign(claims, body []byte) string {
	return encodeToken(claims) + "." + encodeToken(sign(s.keys[0], claims, body))
}

// Verify gives the claims of a token that Sign made for this body, by any key of the ring; else ErrUnsigned.
func (s *Signer) Verify(token string, body []byte) (claims []byte, err error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // which the decoder would pass over
		return nil, ErrUnsigned
	}
	first, second, found := strings.Cut(token, ".")
	claims, claimsErr := base64.RawURLEncoding.Strict().DecodeString(first)
	mac, macErr := base64.RawURLEncoding.Strict().DecodeString(second)
	if !found || claimsErr != nil || macErr != nil {
		return nil, ErrUnsigned
	}
	for _, key := range s.keys {
		if hmac.Equal(mac, sign(key, claims, body)) {
			return claims, nil
		}
	}
	return nil, ErrUnsigned
}

// sign is unambiguous because the body's hash, which comes last, has always the same length.
func sign(key, claims, body []byte) []byte {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(claims) // a hash never fails
	_, _ = mac.Write(sum[:]) // a hash never fails
	return mac.Sum(nil)
}

func encodeToken(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
