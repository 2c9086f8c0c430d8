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
	secretBytes  = 32 // size of generated secrets
	// The key sizes of Standard Webhooks, in bytes.
	keyLeast, maxKey = 24, 64
)

// NewSecret generates a secret for a source.
func NewSecret(source domain.HookSource) string {
	// Standard Webhooks prescribes base64 with a prefix. The other sources accept any text.
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	if source == domain.HookStandard {
		return secretPrefix + base64.StdEncoding.EncodeToString(raw[:])
	}
	return hex.EncodeToString(raw[:])
}

// CheckSecret reports why a user's own secret is invalid for a source.
func CheckSecret(source domain.HookSource, secret string) error {
	// Such characters are lost when a secret is copied or sent in a header.
	if strings.TrimSpace(secret) != secret || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("must not begin or end with a space or contain control characters")
	}
	if source != domain.HookStandard {
		return nil
	}
	key, err := keyFor(source, secret)
	if err != nil || len(key) < keyLeast || len(key) > maxKey {
		return fmt.Errorf("must be %s and %d to %d bytes in base64", secretPrefix, keyLeast, maxKey)
	}
	return nil
}

// Sent is a delivery in the form that a source sends.
type Sent struct {
	Header http.Header
	Body   []byte
}

// Signed signs a body as the source does, for test deliveries. It sets the headers for id and
// event, if the source sends them in headers.
func Signed(h *domain.Hook, secret, deliveryID, event string, body []byte, now time.Time) (Sent, error) {
	key, err := keyFor(h.Source, secret)
	if err != nil {
		return Sent{}, fmt.Errorf("signing a delivery: %w", err)
	}

	// Each source signs a different text and has its own headers; see Verify.
	out := Sent{Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	at := strconv.FormatInt(now.Unix(), 10)
	hexOf := func(before string) string { return hex.EncodeToString(sign(key, before, body)) }
	switch h.Source {
	case domain.HookGitHub:
		out.Header.Set(HeaderGitHubSignature, "sha256="+hexOf(""))
		out.Header.Set(HeaderGitHubEvent, event)
		out.Header.Set(HeaderGitHubDelivery, deliveryID)
	case domain.HookStripe:
		out.Header.Set(HeaderStripe, "t="+at+",v1="+hexOf(at+"."))
	case domain.HookSlack:
		out.Header.Set(HeaderSlackTime, at)
		out.Header.Set(HeaderSlack, "v0="+hexOf("v0:"+at+":"))
	case domain.HookStandard:
		out.Header.Set(HeaderID, deliveryID)
		out.Header.Set(HeaderTime, at)
		sum := sign(key, deliveryID+"."+at+".", body)
		out.Header.Set(HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(sum))
	case domain.HookHMAC:
		out.Header.Set(h.SignatureHeader, "sha256="+hexOf(""))
	case domain.HookToken:
		out.Header.Set(h.SignatureHeader, secret)
	}

	// Only these sources let a user choose the header of the id.
	if h.DeliveryIDHeader != "" && (h.Source == domain.HookHMAC || h.Source == domain.HookToken) {
		out.Header.Set(h.DeliveryIDHeader, deliveryID)
	}
	return out, nil
}
