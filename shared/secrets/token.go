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
	tokenPurpose = "parley sealed token v1"
	saltSize     = 24
	maxSealed    = 4 << 10 // characters of a token; what is longer is not even decoded
	maxSecret    = 6 << 10 // of a client secret, which holds settings: proxies take 8 KiB in a header

	widgetStart  = "wt_"
	visitorStart = "vt_"
	clientStart  = "ek_" // OpenAI's own clients know secrets for browsers by it
)

// ClientSecretRoom is how many bytes a client secret may hold.
const ClientSecretRoom = maxSecret/4*3 - keyIDSize - saltSize - 16

// SealWidgetToken seals what a widget token says; see SealVisitorToken.
func (b *Box) SealWidgetToken(plain []byte) string { return b.sealToken(widgetStart, plain, "") }

// OpenWidgetToken is the reverse of SealWidgetToken; ErrSealed when it was made by nobody here.
func (b *Box) OpenWidgetToken(token string) ([]byte, error) {
	return b.openToken(widgetStart, token, "")
}

// SealVisitorToken seals the name that a browser keeps of its visitor, for one place.
func (b *Box) SealVisitorToken(plain []byte, place string) string {
	return b.sealToken(visitorStart, plain, place)
}

// OpenVisitorToken is the reverse of SealVisitorToken.
func (b *Box) OpenVisitorToken(token, place string) ([]byte, error) {
	return b.openToken(visitorStart, token, place)
}

// SealClientSecret seals what a client secret of /v1/realtime says, which has ClientSecretRoom.
func (b *Box) SealClientSecret(plain []byte) string { return b.sealToken(clientStart, plain, "") }

// OpenClientSecret is the reverse of SealClientSecret.
func (b *Box) OpenClientSecret(token string) ([]byte, error) {
	return b.openToken(clientStart, token, "")
}

// HasCurrentKey reports whether a token that the box opens was sealed with its current key.
func (b *Box) HasCurrentKey(token string) bool {
	_, text, _ := strings.Cut(token, "_")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(raw) >= keyIDSize && hex.EncodeToString(raw[:keyIDSize]) == b.sealing
}

// IsClientSecret reports whether a bearer value means to be a client secret.
func IsClientSecret(s string) bool { return strings.HasPrefix(s, clientStart) }

// IsWidgetToken reports whether a bearer value means to be a widget token.
func IsWidgetToken(s string) bool { return strings.HasPrefix(s, widgetStart) }

// sealToken seals under a key of the token's own, drawn by a salt: anybody may ask for any number of tokens, and a cipher
// with random nonces bears only so many under one key. Start and place must be the same to open it.
func (b *Box) sealToken(start string, plain []byte, place string) string {
	id, err := hex.DecodeString(b.sealing)
	if err != nil {
		panic(err) // NewBox has written it
	}
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails: the runtime ends the process first
	head := slices.Concat(id, salt[:])
	aead := tokenCipher(b.tokens[b.sealing], start, salt[:])
	sealed := aead.Seal(head, make([]byte, aead.NonceSize()), plain, []byte(start+place)) //nolint:gosec // G407: no key is used twice
	return start + base64.RawURLEncoding.EncodeToString(sealed)
}

func (b *Box) openToken(start, token, place string) ([]byte, error) {
	text, ok := strings.CutPrefix(token, start)
	limit := maxSealed
	if start == clientStart {
		limit = maxSecret
	}
	if !ok || len(text) > limit || strings.ContainsAny(text, "\r\n") { // which the decoder would pass over
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
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), raw[keyIDSize+saltSize:], []byte(start+place))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

func tokenCipher(key []byte, start string, salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(start)) // a hash never fails, and starts are equally long
	_, _ = mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // a hash has the size of a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the size of block that it wants
	}
	return aead
}
