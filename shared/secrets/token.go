package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// purpose of the secrets from which the keys of tokens are derived
	tokenPurpose = "parley sealed token v1"
	// size of the random salt in bytes
	saltSize  = 24
	maxSealed = 4 << 10 // maximum number of characters in a token; longer tokens are not decoded
	maxSecret = 6 << 10 // maximum number of characters in a client secret, which contains settings; proxies accept 8 KiB per header

	widgetStart  = "wt_"
	visitorStart = "vt_"
	clientStart  = "ek_" // OpenAI's clients recognize secrets for browsers by this prefix
)

// ClientSecretRoom is the maximum number of bytes of content in a client secret.
const ClientSecretRoom = maxSecret/4*3 - keyIDSize - saltSize - 16

// SealWidgetToken seals the content of a widget token.
func (b *Box) SealWidgetToken(plain []byte) string { return b.sealToken(widgetStart, plain, "") }

// OpenWidgetToken is the inverse of SealWidgetToken. It returns ErrSealed for an invalid token.
func (b *Box) OpenWidgetToken(token string) ([]byte, error) {
	return b.openToken(widgetStart, token, "")
}

// SealVisitorToken seals the content of the token by which a browser remembers a widget's visitor.
// The token can be opened only with the same location.
func (b *Box) SealVisitorToken(plain []byte, location string) string {
	return b.sealToken(visitorStart, plain, location)
}

// OpenVisitorToken is the inverse of SealVisitorToken.
func (b *Box) OpenVisitorToken(token, location string) ([]byte, error) {
	return b.openToken(visitorStart, token, location)
}

// SealClientSecret seals the content of a client secret of /v1/realtime. The content may have at
// most ClientSecretRoom bytes.
func (b *Box) SealClientSecret(plain []byte) string { return b.sealToken(clientStart, plain, "") }

// OpenClientSecret is the inverse of SealClientSecret.
func (b *Box) OpenClientSecret(token string) ([]byte, error) {
	return b.openToken(clientStart, token, "")
}

// HasCurrentKey reports whether a valid token was sealed with the box's first key, which seals new
// tokens.
func (b *Box) HasCurrentKey(token string) bool {
	_, text, _ := strings.Cut(token, "_")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(raw) >= keyIDSize && hex.EncodeToString(raw[:keyIDSize]) == b.sealing
}

// IsClientSecret reports whether a bearer token has the prefix of a client secret.
func IsClientSecret(s string) bool { return strings.HasPrefix(s, clientStart) }

// IsWidgetToken reports whether a bearer token has the prefix of a widget token.
func IsWidgetToken(s string) bool { return strings.HasPrefix(s, widgetStart) }

// sealToken seals a token with a key of its own, which is derived with a random salt. Clients may
// request any number of tokens, and a cipher with random nonces is safe only for a limited number
// of messages per key. openToken needs the same start and location.
func (b *Box) sealToken(start string, plain []byte, location string) string {
	id, err := hex.DecodeString(b.sealing)
	if err != nil {
		panic(err) // set by NewBox
	}
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails: the runtime would end the process

	// The head of a token contains all data that is needed to derive its key again.
	head := slices.Concat(id, salt[:])
	aead := tokenCipher(b.tokens[b.sealing], start, salt[:])
	sealed := aead.Seal(head, make([]byte, aead.NonceSize()), plain, []byte(start+location)) //nolint:gosec // G407: no key is used twice
	return start + base64.RawURLEncoding.EncodeToString(sealed)
}

// openToken is the inverse of sealToken. It returns ErrSealed for an invalid token.
func (b *Box) openToken(start, token, location string) ([]byte, error) {
	text, ok := strings.CutPrefix(token, start)

	// The length is checked first, to limit the work for an invalid token.
	limit := maxSealed
	if start == clientStart {
		limit = maxSecret
	}

	if !ok || len(text) > limit || strings.ContainsAny(text, "\r\n") { // the decoder would ignore line breaks
		return nil, ErrSealed
	}

	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < keyIDSize+saltSize {
		return nil, ErrSealed
	}

	key := b.tokens[hex.EncodeToString(raw[:keyIDSize])]
	if key == nil {
		return nil, ErrSealed
	}

	aead := tokenCipher(key, start, raw[keyIDSize:keyIDSize+saltSize])
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), raw[keyIDSize+saltSize:], []byte(start+location))
	if err != nil {
		return nil, ErrSealed
	}

	return plain, nil
}

// tokenCipher derives the cipher of a single token from its prefix and salt.
func tokenCipher(key []byte, start string, salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(start)) // HMAC never returns an error on a write, and all starts have the same length
	_, _ = mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // cannot happen: a SHA-256 hash has the size of an AES-256 key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the required block size
	}
	return aead
}
