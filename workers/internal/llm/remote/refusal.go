package remote

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// redacted is the text that replaces a secret in a provider's message.
const redacted = "[redacted]"

// secrets matches credentials, and ids of the operator's account at the provider, that a provider's
// message may contain: headers, keys, tokens, credentials in URLs, and the ids of organizations and
// projects. It also matches keys that a provider has partly masked with asterisks or dots.
var secrets = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?[^\s"',;]+`,
	`\b(?:x-)?(?:goog-)?api[-_]?key["']?\s*[:=]\s*["']?[^\s"',;]+`,
	`\b[\w-]*(?:password|passwd|secret)["']?\s*[:=]\s*["']?[^\s"',;]+`,
	`\b(?:access|auth|refresh|id|api)[-_]?token["']?\s*[:=]\s*["']?[^\s"',;]+`,
	`\b(?:set-)?cookie["']?\s*[:=][^\r\n]*`,
	`\bbearer\s+[\w.~+/=*-]{6,}`,
	`\b(?:sk|pk|rk|ak|gsk|xai|pplx|hf|r8|nvapi|csk|sess)[-_][\w.*-]{4,}[\w*-]`,
	`\b(?:org|proj)[-_]\w{4,}`,
	`\b(?:user|acct)[-_][A-Za-z0-9]{16,}`,
	`\bAIza[\w.*-]{10,}`,
	`\bA[KS]IA[A-Z0-9]{12,}`,
	`\b(?:gh[a-z]|github_pat)_\w{8,}`,
	`\bxox[a-z]-[\w-]{6,}`,
	`\beyJ[\w-]{8,}(?:\.[\w-]+)*`,
	`//[^\s/@]+:[^\s/@]+@\S*`,
	`[\w-]*[*•]{3,}[\w-]*`,
	`\b[A-Za-z0-9+_-]{40,}={0,2}`,
}, "|"))

// addresses and hosts match the addresses of the operator's servers. addresses matches URLs. hosts
// matches hosts with a port, names of private and common domains, and IP addresses. A port must
// have at least two digits, because model names such as phi:3b and claude:0 end with a single
// digit.
var (
	addresses = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"<>]+`)
	hosts     = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b`,
		`\[?(?:\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6}::(?:[0-9a-f:.]*[0-9a-f])?|::[0-9a-f:.]*[0-9a-f]\b)(?:%\w+)?(?:\](?::\d{1,5})?)?`,
		`\b(?:[\w-]+\.)*[\w-]*[a-z][\w-]*:\d{2,5}\b`,
		`\b(?:[\w-]+\.)+(?:internal|intranet|local|localdomain|lan|corp|home|private|svc|com|net|org|io|dev|cloud)\b`,
	}, "|"))
)

// newRefusal returns the part of a provider's response that admins may read: its status, and its
// message without secrets and addresses. The message is on one line and has at most
// domain.MaxProviderMessage characters. key is the API key of the request.
func newRefusal(status int, message, key string) *domain.ProviderError {
	message = strings.ToValidUTF8(message, "\uFFFD")
	// Do not redact very short keys. Such keys are placeholders such as "x", which would match
	// parts of ordinary words.
	if len(key) >= 4 {
		message = strings.ReplaceAll(message, key, redacted)
	}
	// Truncate the message only after the redaction. Otherwise, a truncated secret at the end of
	// the message would not be recognized.
	message = addresses.ReplaceAllString(message, redacted)
	message = secrets.ReplaceAllString(message, redacted)
	message = hosts.ReplaceAllString(message, redacted)
	message = strings.ReplaceAll(message, redacted+redacted, redacted) // combine adjacent replacements, such as those of parts of a key
	message = strings.Join(strings.FieldsFunc(llm.CleanText(message), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
	if first, more := domain.FirstRunes(message, domain.MaxProviderMessage-1); more {
		message = first + "…"
	}
	return &domain.ProviderError{Status: status, Message: message}
}

// plainMessage returns the message of an error response that does not contain the provider's error
// object. It returns the text of the body, or "" if the body is a web page or JSON.
func plainMessage(body []byte) string {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || strings.ContainsRune("<{[", rune(body[0])) {
		return ""
	}
	return string(body)
}

// cutShort is the message for a stream that ended without a final event and without a reason.
const cutShort = "The stream ended before the answer was complete."

// describe sets e.Provider if there was a response. The message in e.Provider is the provider's
// message that the classification has found, or else a description of the response. The message
// stays empty if the failure concerns the operator's account at the provider: its credentials, its
// quota or its rate limit.
func describe(e *llm.Error, res *http.Response, body []byte, key string) {
	if res == nil {
		return
	}
	message := e.Detail
	if message == "" && res.StatusCode >= http.StatusBadRequest {
		message = plainMessage(body)
	}
	if message == "" && e.Kind == llm.KindTruncated {
		message = cutShort
	}
	switch e.Kind {
	case llm.KindAuth, llm.KindQuota, llm.KindRateLimited:
		message = ""
	default:
	}
	e.Provider = newRefusal(res.StatusCode, message, key)
}
