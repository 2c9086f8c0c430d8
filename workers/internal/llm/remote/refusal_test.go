package remote

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/domain"
)

// TestRefusalsHideSecrets checks that a provider's message shows no credentials and no ids of the
// service's account.
func TestRefusalsHideSecrets(t *testing.T) {
	t.Parallel()
	const key = "my own key 42"
	for said, want := range map[string]string{
		"The model `gpt-9` does not exist or you do not have access to it.":  "The model `gpt-9` does not exist or you do not have access to it.",
		"model accounts/fireworks/models/llama-v3p1-405b-instruct not found": "model accounts/fireworks/models/llama-v3p1-405b-instruct not found",
		"Incorrect API key provided: sk-proj-Ab3*****xyZ9.":                  "Incorrect API key provided: [redacted].",
		"bad key " + key + "!":                                              "bad key [redacted]!",
		"bad key MIGH*********RIJ8":                                         "bad key [redacted]",
		"header Authorization: Bearer abc.def-123 is wrong":                 "header [redacted] is wrong",
		`{"x-api-key": "secret"}`:                                           `{"[redacted]"}`,
		"Limit reached in organization org-AbCdEfGhIjKlMnOpQrStUvWx on TPM": "Limit reached in organization [redacted] on TPM",
		"connecting to https://user:pass@10.0.0.1/v1":                       "connecting to https:[redacted]10.0.0.1/v1",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln expired":           "token [redacted] expired",
		"token " + strings.Repeat("aB3", 15) + " expired":                   "token [redacted] expired",
		"two\nlines\tand \x00control\x1b":                                   "two lines and control",
		"not UTF-8: \xff":                                                   "not UTF-8: \uFFFD",
	} {
		if got := newRefusal(400, said, key); got.Message != want || got.Status != 400 {
			t.Errorf("%q:\ngot  %q\nwant %q", said, got.Message, want)
		}
	}

	long := newRefusal(400, strings.Repeat("ä ", 800)+"sk-abcdefgh", key).Message
	if n := utf8.RuneCountInString(long); n != domain.MaxProviderMessage || !strings.HasSuffix(long, "…") {
		t.Errorf("%d characters: %q", n, long)
	}
	// The end of a truncated message must not contain the beginning of a key.
	if cut := newRefusal(400, strings.Repeat("a ", 495)+key, key).Message; strings.Contains(cut, "my") {
		t.Errorf("%q", cut)
	}
}
