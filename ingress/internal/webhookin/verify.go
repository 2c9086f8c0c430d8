package webhookin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/shared/domain"
)

// These errors are the reasons for refusing a delivery. They help the person who configures the
// source, but do not help a sender to guess a secret. The sender gets them in the response.
var (
	ErrUnsigned  = errors.New("the delivery has no signature")
	ErrNoToken   = errors.New("the delivery has no token in the webhook's header")
	ErrDoubled   = errors.New("a signature header was sent more than once")
	ErrMalformed = errors.New("a signature header is malformed")
	ErrStale     = errors.New("the time of the signature differs from the current time by more than five minutes")
	ErrSignature = errors.New("the signature does not match the body and the webhook's secret")
	ErrToken     = errors.New("the token does not match the webhook's secret")
)

const (
	tolerance     = 5 * time.Minute // maximum difference between the time of the signature and the local clock, in both directions
	maxSignatures = 16              // maximum number of signatures checked in one header
	// bearer is the prefix of the token in an Authorization header.
	bearer = "Bearer "
)

// These constants are the headers in which sources send signatures. Each is in the canonical form
// of package http.
const (
	HeaderGitHubSignature = "X-Hub-Signature-256"
	HeaderGitHubEvent     = "X-Github-Event"
	HeaderGitHubDelivery  = "X-Github-Delivery"
	HeaderStripe          = "Stripe-Signature"
	HeaderSlack           = "X-Slack-Signature"
	HeaderSlackTime       = "X-Slack-Request-Timestamp"
	HeaderID              = "Webhook-Id"
	HeaderTime            = "Webhook-Timestamp"
	HeaderSignature       = "Webhook-Signature"
	svixID                = "Svix-Id"
	svixTime              = "Svix-Timestamp"
	svixSignature         = "Svix-Signature"
)

// Verify checks that a delivery was signed with one of the secrets, given its headers and its
// unmodified body. The argument now is the current time. Verify returns nil or one of the errors
// above. signatureHeader is the header that a hook of the sources hmac and token defines. The error
// may be wrapped. Secrets that cannot be decoded match no signature. Verify does not detect
// repeated deliveries; the caller compares their ids.
func Verify(source domain.HookSource, signatureHeader string, secrets []string, header http.Header, body []byte, now time.Time) error {
	signed, err := presented(source, signatureHeader, header, now)
	if err != nil {
		return err
	}
	good := 0
	for _, secret := range secrets { // checks all secrets, so that the duration does not reveal which one matched
		good |= signed.by(source, secret, body)
	}
	switch {
	case good == 1:
		return nil
	case source == domain.HookToken:
		return ErrToken
	}
	return ErrSignature
}

// VerifyHeaders performs the checks of Verify that do not need the body. It checks that a signature
// is present. For a source that sends the secret itself, it checks the secret. If it returns an
// error, the caller need not read the body. A sender without a secret thus cannot cause a large
// body to be read.
func VerifyHeaders(source domain.HookSource, signatureHeader string, secrets []string, header http.Header, now time.Time) error {
	if source == domain.HookToken {
		return Verify(source, signatureHeader, secrets, header, nil, now)
	}
	_, err := presented(source, signatureHeader, header, now)
	return err
}

// signed contains the signatures of a delivery and the text that precedes the body in the signed
// text. The function presented creates it.
type signed struct {
	// Decoded signatures; at most maxSignatures.
	signatures [][]byte
	// Text before the body in the signed text; empty: the body alone is signed.
	before string
	token  string // the secret itself, for sources that do not sign
}

// presented parses the headers of a source that contain its signatures. It checks the time of the
// signatures, but not the signatures themselves, for which it would need the body. An unknown
// source is an error.
func presented(source domain.HookSource, signatureHeader string, header http.Header, now time.Time) (signed, error) {
	switch source {
	case domain.HookGitHub:
		return hexSignature(header, HeaderGitHubSignature, "sha256=")
	case domain.HookStripe:
		return stripeSignatures(header, now)
	case domain.HookSlack:
		return slackSignature(header, now)
	case domain.HookStandard:
		return standardSignatures(header, now)
	case domain.HookHMAC:
		return plainSignature(header, signatureHeader)
	case domain.HookToken:
		// The source sends the secret itself, so there is no signature.
		token, err := one(header, signatureHeader)
		if errors.Is(err, ErrUnsigned) {
			err = fmt.Errorf("%w %s", ErrNoToken, signatureHeader)
		}
		return signed{token: token}, err
	}
	return signed{}, ErrUnsigned
}

// by returns 1 if one of the signatures was made with the secret, and otherwise 0. It checks all
// signatures, so the duration does not depend on the position of the valid signature.
func (s *signed) by(source domain.HookSource, secret string, body []byte) int {
	if source == domain.HookToken {
		// Senders may put "Bearer " before the secret, but need not.
		return same(s.token, secret) | same(strings.TrimPrefix(s.token, bearer), secret)
	}
	key, err := keyFor(source, secret)
	if err != nil {
		return 0
	}

	sum := sign(key, s.before, body)
	good := 0
	for _, signature := range s.signatures {
		good |= subtle.ConstantTimeCompare(signature, sum)
	}
	return good
}

// same returns 1 if two texts are equal, and otherwise 0. It compares them in constant time. The
// texts are hashed first, because the comparison would otherwise reveal their lengths.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// keyFor returns the key that a secret encodes. Secrets of Standard Webhooks are base64, with or
// without a prefix. All other secrets are used as they are.
func keyFor(source domain.HookSource, secret string) ([]byte, error) {
	if source != domain.HookStandard {
		return []byte(secret), nil
	}
	return base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
}

// sign returns the HMAC-SHA256 of the text before, followed by the body.
func sign(key []byte, before string, body []byte) []byte {
	// The two parts are hashed one after the other, because joining them would copy the body.
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(before)) // writing to a hash never fails
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// one returns the value of a header that must occur exactly once. An empty value counts as missing.
// The possible errors are ErrUnsigned and ErrDoubled.
func one(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) == 0 || values[0] == "":
		return "", ErrUnsigned
	// A repeated header is rejected, because a proxy and this service might use different values.
	case len(values) > 1:
		return "", ErrDoubled
	}
	return values[0], nil
}

// hexSignature parses a header that consists of a prefix and one hexadecimal signature. The
// possible errors are those of the function one, and ErrMalformed.
func hexSignature(header http.Header, name, prefix string) (signed, error) {
	value, err := one(header, name)
	if err != nil {
		return signed{}, err
	}
	digits, ok := strings.CutPrefix(value, prefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return signed{}, ErrMalformed
	}
	return signed{signatures: [][]byte{sum}}, nil
}

// plainSignature parses a signature in hexadecimal or base64, with or without the prefix "sha256=".
// The possible errors are those of the function one, and ErrMalformed.
func plainSignature(header http.Header, name string) (signed, error) {
	value, err := one(header, name)
	if err != nil {
		return signed{}, err
	}
	value = strings.TrimPrefix(value, "sha256=")
	// The encoding of the signature depends on the sender.
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString, base64.URLEncoding.DecodeString,
	} {
		if sum, err := decode(value); err == nil && len(sum) == sha256.Size {
			return signed{signatures: [][]byte{sum}}, nil
		}
	}
	return signed{}, ErrMalformed
}

// stripeSignatures parses a header of the form t=<seconds>,v1=<hex>[,v1=…]. It ignores signatures
// of other schemes. The error is ErrStale if the time is not recent. Malformed signatures are
// ignored; if no other signature is left, the error is ErrMalformed.
func stripeSignatures(header http.Header, now time.Time) (signed, error) {
	value, err := one(header, HeaderStripe)
	if err != nil {
		return signed{}, err
	}

	// The time is part of the signed text. Without it, an old delivery could be replayed.
	var at string
	var out signed
	for field := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "t":
			// A header with two times is rejected, because the signature covers only one time.
			if at != "" {
				return signed{}, ErrDoubled
			}
			at = text
		case "v1":
			if sum, err := hex.DecodeString(text); err == nil && len(out.signatures) < maxSignatures {
				out.signatures = append(out.signatures, sum)
			}
		}
	}
	if len(out.signatures) == 0 {
		return signed{}, ErrMalformed
	}

	// During a rotation, Stripe sends a signature for each secret. One valid signature suffices.
	out.before = at + "."
	return out, fresh(at, now)
}

// slackSignature parses Slack's two headers. One contains the signature, and the other contains the
// time, which is part of the signed text. Both headers are required, and each must occur once.
func slackSignature(header http.Header, now time.Time) (signed, error) {
	out, err := hexSignature(header, HeaderSlack, "v0=")
	if err != nil {
		return signed{}, err
	}
	at, err := one(header, HeaderSlackTime)
	if err != nil {
		return signed{}, err
	}
	out.before = "v0:" + at + ":"
	return out, fresh(at, now)
}

// standardHeaders returns the names of the headers for id, time and signature. These are the names
// of Standard Webhooks, or Svix's own names if the delivery has only Svix's headers.
func standardHeaders(header http.Header) [3]string {
	if header.Get(HeaderSignature) == "" && header.Get(svixSignature) != "" {
		return [...]string{svixID, svixTime, svixSignature}
	}
	return [...]string{HeaderID, HeaderTime, HeaderSignature}
}

// standardSignatures parses the headers of Standard Webhooks. The signature header is a list of
// v1,<base64> separated by spaces. All three headers are required. Signatures of other versions are
// ignored.
func standardSignatures(header http.Header, now time.Time) (signed, error) {
	var values [3]string
	for i, name := range standardHeaders(header) {
		value, err := one(header, name)
		if err != nil {
			return signed{}, err
		}
		values[i] = value
	}

	out := signed{before: values[0] + "." + values[1] + "."}
	for field := range strings.SplitSeq(values[2], " ") {
		text, ok := strings.CutPrefix(field, "v1,")
		if !ok || len(out.signatures) == maxSignatures {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil {
			out.signatures = append(out.signatures, sum)
		}
	}
	if len(out.signatures) == 0 {
		return signed{}, ErrMalformed
	}
	return out, fresh(values[1], now)
}

// fresh checks that the time of a signature is recent. The argument at is the Unix time in whole
// seconds. The errors are ErrMalformed and ErrStale. The limit applies in both directions, because
// clocks differ.
func fresh(at string, now time.Time) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	// The signature covers the text of the time, so only the canonical form is accepted.
	if err != nil || strconv.FormatInt(seconds, 10) != at || seconds < 0 {
		return ErrMalformed
	}
	const limit = int64(tolerance / time.Second)
	if off := now.Unix() - seconds; off > limit || off < -limit {
		return ErrStale
	}
	return nil
}
