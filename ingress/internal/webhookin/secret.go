package webhookin

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/shared/domain"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32 // size of generated secrets, in bytes
	// These constants are the minimum and the maximum size of a key in Standard Webhooks, in bytes.
	keyLeast, maxKey = 24, 64
)

// NewSecret generates a secret for a source. It has 256 random bits.
func NewSecret(source domain.HookSource) string {
	// Standard Webhooks prescribes base64 with a prefix. For other sources, any text is valid.
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // rand.Read always succeeds
	if source == domain.HookStandard {
		return secretPrefix + base64.StdEncoding.EncodeToString(raw[:])
	}
	return hex.EncodeToString(raw[:])
}

// CheckSecret returns an error if a secret that a user has chosen is invalid for the source. The
// error says what is wrong and never contains the secret. CheckSecret does not check the length of
// secrets for sources other than Standard Webhooks.
func CheckSecret(source domain.HookSource, secret string) error {
	// Control characters, and spaces at the ends, can get lost when a secret is copied or sent in a
	// header.
	if strings.TrimSpace(secret) != secret || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("must not begin or end with a space or contain control characters")
	}
	if source != domain.HookStandard {
		return nil
	}
	key, err := keyFor(source, secret)
	if err != nil || len(key) < keyLeast || len(key) > maxKey {
		return fmt.Errorf("must be %s followed by %d to %d bytes in base64", secretPrefix, keyLeast, maxKey)
	}
	return nil
}

// Sent is a delivery in the form in which a source sends it. Signed creates it, and the caller
// sends it as a request.
type Sent struct {
	Header http.Header
	Body   []byte
}

// Signed returns a test delivery, signed as the source signs. It sets the headers for the id and
// the event if the source has such headers. The argument now is the time of the signature. The
// error says that the secret is malformed for the source.
func Signed(h *domain.Hook, secret, deliveryID, event string, body []byte, now time.Time) (Sent, error) {
	key, err := keyFor(h.Source, secret)
	if err != nil {
		return Sent{}, fmt.Errorf("signing a delivery: %w", err)
	}

	// The signed text and the headers depend on the source; see Verify.
	out := Sent{Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	at := strconv.FormatInt(now.Unix(), 10)
	signatureHex := func(before string) string { return hex.EncodeToString(sign(key, before, body)) }
	switch h.Source {
	case domain.HookGitHub:
		out.Header.Set(HeaderGitHubSignature, "sha256="+signatureHex(""))
		out.Header.Set(HeaderGitHubEvent, event)
		out.Header.Set(HeaderGitHubDelivery, deliveryID)
	case domain.HookStripe:
		out.Header.Set(HeaderStripe, "t="+at+",v1="+signatureHex(at+"."))
	case domain.HookSlack:
		out.Header.Set(HeaderSlackTime, at)
		out.Header.Set(HeaderSlack, "v0="+signatureHex("v0:"+at+":"))
	case domain.HookStandard:
		out.Header.Set(HeaderID, deliveryID)
		out.Header.Set(HeaderTime, at)
		sum := sign(key, deliveryID+"."+at+".", body)
		out.Header.Set(HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(sum))
	case domain.HookHMAC:
		out.Header.Set(h.SignatureHeader, "sha256="+signatureHex(""))
	case domain.HookToken:
		out.Header.Set(h.SignatureHeader, secret)
	}

	// Users choose the header of the id only for the sources hmac and token.
	if h.DeliveryIDHeader != "" && (h.Source == domain.HookHMAC || h.Source == domain.HookToken) {
		out.Header.Set(h.DeliveryIDHeader, deliveryID)
	}
	return out, nil
}
