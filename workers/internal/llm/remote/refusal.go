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

// redacted replaces secrets in a provider's message.
const redacted = "[redacted]"

// secrets matches what a provider's message may repeat of the request's credentials or of the
// service's account: headers, keys, tokens, credentials in addresses, and the ids of organizations
// and projects. Providers mask parts of keys with asterisks or dots.
var secrets = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?[^\s"',;]+`,
	`\b(?:x-)?(?:goog-)?api[-_]?key["']?\s*[:=]\s*["']?[^\s"',;]+`,
	`\b(?:set-)?cookie["']?\s*[:=][^\r\n]*`,
	`\bbearer\s+[\w.~+/=*-]{6,}`,
	`\b(?:sk|pk|rk|ak|gsk|xai|pplx|hf|r8|nvapi|csk|sess)[-_][\w.*-]{4,}[\w*-]`,
	`\b(?:org|proj)[-_]\w{4,}`,
	`\b(?:user|acct)[-_][A-Za-z0-9]{16,}`,
	`\bAIza[\w.*-]{10,}`,
	`\beyJ[\w-]{8,}(?:\.[\w-]+)*`,
	`//[^\s/@]+:[^\s/@]+@\S*`,
	`[\w-]*[*•]{3,}[\w-]*`,
	`\b[A-Za-z0-9+_-]{40,}={0,2}`,
}, "|"))

// addresses and hosts match where the operator's servers are: URLs; and hosts with a port, names of
// private and common domains, and IP addresses. A port needs two digits, because names of models end
// with a single one, such as phi:3b or claude:0.
var (
	addresses = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"<>]+`)
	hosts     = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b`,
		`\[?(?:\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6}::(?:[0-9a-f:.]*[0-9a-f])?|::[0-9a-f:.]*[0-9a-f]\b)(?:%\w+)?(?:\](?::\d{1,5})?)?`,
		`\b(?:[\w-]+\.)*[\w-]*[a-z][\w-]*:\d{2,5}\b`,
		`\b(?:[\w-]+\.)+(?:internal|intranet|local|localdomain|lan|corp|home|private|svc|com|net|org|io|dev|cloud)\b`,
	}, "|"))
)

// newRefusal returns what admins may read of a provider's response: its status, and its message
// without secrets and addresses, on one line and with at most domain.MaxProviderMessage characters. key is the
// key of the request.
func newRefusal(status int, message, key string) *domain.ProviderError {
	message = strings.ToValidUTF8(message, "\uFFFD")
	// Very short keys are placeholders such as "x" that would match ordinary words.
	if len(key) >= 4 {
		message = strings.ReplaceAll(message, key, redacted)
	}
	// Truncated after the redaction, so that no part of a secret at the end escapes it.
	message = addresses.ReplaceAllString(message, redacted)
	message = secrets.ReplaceAllString(message, redacted)
	message = hosts.ReplaceAllString(message, redacted)
	message = strings.ReplaceAll(message, redacted+redacted, redacted) // a key and its masked rest
	message = strings.Join(strings.FieldsFunc(llm.CleanText(message), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if first, more := domain.FirstRunes(message, domain.MaxProviderMessage-1); more {
		message = first + "…"
	}
	return &domain.ProviderError{Status: status, Message: message}
}

// plainMessage returns the message of an error response that is not the provider's error object:
// its text, unless it is a web page or JSON.
func plainMessage(body []byte) string {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || strings.ContainsRune("<{[", rune(body[0])) {
		return ""
	}
	return string(body)
}

// cutShort is the message for a stream without a final event, which the provider does not explain.
const cutShort = "The stream ended before the answer was complete."

// describe sets e.Provider after a response: to the message that the classification has found, or
// else to one that describes the response. The message is empty if the cause is the operator's account
// at the provider: its credentials, quota or rate limit.
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
