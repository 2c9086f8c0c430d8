package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"

	"parley/shared/domain"
	"parley/shared/id"
)

// base62 contains the digits of secrets and checksums. None of the digits needs an escape in a URL
// or a shell.
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	secretLen   = 32 // 190 bits
	checksumLen = 6  // base62 digits for 32 bits
	// length of the part of an id after its prefix
	publicLen = 26
	keyStart  = "ak_"
	keyLen    = len(keyStart) + publicLen + 1 + secretLen + checksumLen

	// The prefixes let secret scanners and people recognize the kind of a credential.
	sessionStart    = "ps_"
	linkStart       = "pl_"
	invitationStart = "pi_"
	resetStart      = "pr_"
	tokenLen        = len(sessionStart) + secretLen
)

// APIKey is a new API key. Key is shown once and not stored; the other fields are stored.
type APIKey struct {
	ID       string // key_…
	Key      string // ak_…
	Hash     []byte // SHA-256 of Key
	LastFour string
}

// NewAPIKey generates an API key.
func NewAPIKey() APIKey {
	keyID := id.New(id.Key)
	body := domain.KeyPrefix(keyID) + "_" + randomSecret()
	key := body + checksum(body)
	return APIKey{ID: keyID, Key: key, Hash: Hash(key), LastFour: key[len(key)-4:]}
}

// APIKeyID returns the id of a well-formed API key. It returns false if the format or the
// checksum is wrong.
func APIKeyID(key string) (string, bool) {
	if len(key) != keyLen || !strings.HasPrefix(key, keyStart) {
		return "", false
	}

	// The checksum detects typing errors before the database is queried.
	body, sum := key[:keyLen-checksumLen], key[keyLen-checksumLen:]
	if checksum(body) != sum {
		return "", false
	}
	keyID := id.Key + "_" + key[len(keyStart):len(keyStart)+publicLen]
	return keyID, key[len(keyStart)+publicLen] == '_' && id.Valid(id.Key, keyID)
}

// IsAPIKey reports whether a bearer token has the prefix of an API key.
func IsAPIKey(s string) bool { return strings.HasPrefix(s, keyStart) }

// NewSessionToken generates the token of a login session: "ps_" and 190 random bits.
func NewSessionToken() string { return sessionStart + randomSecret() }

// IsSessionToken reports whether s has the format of a login session's token.
func IsSessionToken(s string) bool { return isToken(s, sessionStart) }

// NewLinkToken generates the token of a one-time login link: "pl_" and 190 random bits.
func NewLinkToken() string { return linkStart + randomSecret() }

// IsLinkToken reports whether s has the format of a login link's token.
func IsLinkToken(s string) bool { return isToken(s, linkStart) }

// NewInvitationToken generates the token of an invitation link: "pi_" and 190 random bits.
func NewInvitationToken() string { return invitationStart + randomSecret() }

// IsInvitationToken reports whether s has the format of an invitation's token.
func IsInvitationToken(s string) bool { return isToken(s, invitationStart) }

// NewResetToken generates the token of a password reset link: "pr_" and 190 random bits.
func NewResetToken() string { return resetStart + randomSecret() }

// IsResetToken reports whether s has the format of a password reset token.
func IsResetToken(s string) bool { return isToken(s, resetStart) }

// isToken reports whether s is a token with this prefix.
func isToken(s, start string) bool {
	return len(s) == tokenLen && strings.HasPrefix(s, start) && strings.Trim(s[len(start):], base62) == ""
}

// Hash returns the SHA-256 of a credential. The database stores the hash instead of the credential.
func Hash(credential string) []byte {
	sum := sha256.Sum256([]byte(credential))
	return sum[:]
}

// randomSecret returns random base62 characters, each with equal probability.
func randomSecret() string {
	const fair = 256 / len(base62) * len(base62) // larger bytes are skipped, because they would make some characters more frequent
	out := make([]byte, 0, secretLen)
	var buf [64]byte
	for {
		_, _ = rand.Read(buf[:]) // never fails: the runtime would end the process instead
		for _, b := range buf {
			if int(b) >= fair {
				continue
			}
			if out = append(out, base62[int(b)%len(base62)]); len(out) == secretLen {
				return string(out)
			}
		}
	}
}

// checksum returns the CRC-32 of a key's body in base62.
func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		out[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(out[:])
}
