package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSealed means that none of the keys can open a value at the given location.
var ErrSealed = errors.New("cannot decrypt a stored value")

const (
	// prefix of sealed texts; a later format would have another prefix
	version = "v1."
	keySize = 32 // AES-256
)

// Box seals values with its first key and opens values that were sealed with any of its keys.
type Box struct {
	sealing string   // id of the first key
	ids     []string // ids of all keys, in order
	keys    map[string]cipher.AEAD
	tokens  map[string][]byte // secrets from which the keys of tokens are derived, by the id of the box's key
}

// NewBox parses the setting SECRETS_KEY: one key of 32 bytes in base64 or hex, or several keys
// separated by commas. New values are sealed with the first key. NewSigner describes how an
// operator rotates the key.
func NewBox(setting string) (*Box, error) {
	b := &Box{keys: map[string]cipher.AEAD{}, tokens: map[string][]byte{}}
	for n, text := range strings.Split(setting, ",") {
		key, err := readKey(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("reading secrets key %d: %w", n+1, err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("preparing secrets key %d: %w", n+1, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("preparing secrets key %d: %w", n+1, err)
		}
		// The id of a key is a hash that reveals nothing about the key. A sealed value contains the
		// id of its key.
		sum := sha256.Sum256(append([]byte("parley key id:"), key...))
		keyID := hex.EncodeToString(sum[:4])
		if n == 0 {
			b.sealing = keyID
		}
		// The setting may contain a key twice.
		if b.keys[keyID] == nil {
			b.ids = append(b.ids, keyID)
		}
		b.keys[keyID] = aead
		if b.tokens[keyID], err = hkdf.Key(sha256.New, key, nil, tokenPurpose, keySize); err != nil {
			return nil, fmt.Errorf("deriving token key %d: %w", n+1, err)
		}
	}

	return b, nil
}

// readKey parses a key of 32 bytes in base64 or hex.
func readKey(text string) ([]byte, error) {
	if len(text) == hex.EncodedLen(keySize) {
		if key, err := hex.DecodeString(text); err == nil {
			return key, nil
		}
	}

	// Tools differ in the alphabet and in the padding, so accept all variants.
	plain := strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(plain); err == nil && len(key) == keySize {
			return key, nil
		}
	}
	return nil, fmt.Errorf("not %d bytes in base64 or hex", keySize) // the text is never shown
}

// KeyIDs returns the ids of the keys in the order of the setting. The box seals with the first key.
func (b *Box) KeyIDs() []string { return slices.Clone(b.ids) }

// KeyID returns the id of the key with which Seal sealed a value, or Malformed. The id is not
// secret, because the key cannot be derived from the id.
func KeyID(sealed string) string {
	rest, ok := strings.CutPrefix(sealed, version)
	keyID, _, found := strings.Cut(rest, ".")
	if raw, err := hex.DecodeString(keyID); !ok || !found || err != nil || len(raw) != keyIDSize {
		return Malformed
	}
	return keyID
}

// Malformed is returned in place of a key's id for a value that is not in the format of Seal.
const Malformed = "malformed"

// Seal encrypts plaintext for the location that the argument associated identifies. Opening the
// result requires the same associated text.
func (b *Box) Seal(plaintext, associated string) string {
	sealed := b.keys[b.sealing].Seal(nil, nil, []byte(plaintext), []byte(associated)) //nolint:gosec // G407: the cipher draws the nonce
	return version + b.sealing + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open decrypts a sealed value. It returns ErrSealed if the value was changed, if it belongs
// to another location, or if its key is not in the box.
func (b *Box) Open(sealed, associated string) (string, error) {
	// All failures return the same error, because different errors would help only an attacker.
	rest, ok := strings.CutPrefix(sealed, version)
	keyID, text, found := strings.Cut(rest, ".")
	aead := b.keys[keyID]
	if !ok || !found || aead == nil {
		return "", ErrSealed
	}

	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", ErrSealed
	}

	plain, err := aead.Open(nil, nil, raw, []byte(associated))
	if err != nil {
		return "", ErrSealed
	}

	return string(plain), nil
}

// AgentHeaders returns the location that Seal and Open need for an agent's header secrets.
func AgentHeaders(organizationID, agentID string) string {
	return "agent headers|" + organizationID + "|" + agentID
}

// WidgetIdentity returns the location that Seal and Open need for the secret with which the
// identities of an agent's visitors are signed.
func WidgetIdentity(organizationID, agentID string) string {
	return "widget identity|" + organizationID + "|" + agentID
}

// Hook returns the location that Seal and Open need for a hook's secrets.
func Hook(organizationID, hookID string) string { return "hook:" + organizationID + ":" + hookID }

// NotificationEndpoint returns the location that Seal and Open need for the secrets that sign an
// endpoint's notifications.
func NotificationEndpoint(organizationID, endpointID string) string {
	return "notification endpoint|" + organizationID + "|" + endpointID
}
