package remote

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// TestRefusalsHideSecrets checks that the messages for admins contain no credentials, and no ids of
// the operator's account at a provider.
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
		"connecting to https://user:pass@10.0.0.1/v1 failed":                "connecting to [redacted] failed",
		"connecting to //user:pass@llm/v1 failed":                           "connecting to [redacted] failed",
		"Post \"http://vllm.internal:8000/v1\": dial tcp: lookup vllm.internal on 10.1.2.3:53: no such host": "Post \"[redacted]\": dial tcp: lookup [redacted] on [redacted]: no such host",
		"no route to gpu_1:8000 or localhost:80.":                                                            "no route to [redacted] or [redacted].",
		"dial tcp [fd00::12]:4000: connection refused":                                                       "dial tcp [redacted]: connection refused",
		"from ::1, fe80::1%eth0 and ::ffff:10.0.0.1.":                                                        "from [redacted], [redacted] and [redacted].",
		"2001:db8:1:2:3:4:5:6 is blocked, and so is 10.0.0.9":                                                "[redacted] is blocked, and so is [redacted]",
		"my-api-key:12345-abc":                                                                               "my-[redacted]",
		"model phi:3b needs version 2.5.1 at 12:34:56":                                                       "model phi:3b needs version 2.5.1 at 12:34:56",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln expired":                                            "token [redacted] expired",
		"token " + strings.Repeat("aB3", 15) + " expired":                                                    "token [redacted] expired",
		"key=AKIAIOSFODNN7EXAMPLE or ghp_abcdefghijklmnop, xoxb-1-2-abc":                                     "key=[redacted] or [redacted], [redacted]",
		`password=hunter2 and {"client_secret": "s3"}, access_token: a.b`:                                    `[redacted] and {"[redacted]"}, [redacted]`,
		"max_tokens: 99999 exceeds 8192; unexpected token: }":                                                "max_tokens: 99999 exceeds 8192; unexpected token: }",
		"turned \u202Earound\u202C":                                                                          "turned around",
		"two\nlines\tand \x00control\x1b":                                                                    "two lines and control",
		"not UTF-8: \xff":                                                                                    "not UTF-8: \uFFFD",
	} {
		if got := newRefusal(400, said, key); got.Message != want || got.Status != 400 {
			t.Errorf("%q:\ngot  %q\nwant %q", said, got.Message, want)
		}
	}

	long := newRefusal(400, strings.Repeat("ä ", 800)+"sk-abcdefgh", key).Message
	if n := utf8.RuneCountInString(long); n != domain.MaxProviderMessage || !strings.HasSuffix(long, "…") {
		t.Errorf("%d characters: %q", n, long)
	}
	// A truncated message must not end with the first characters of a key.
	if cut := newRefusal(400, strings.Repeat("a ", 495)+key, key).Message; strings.Contains(cut, "my") {
		t.Errorf("%q", cut)
	}
}

// TestRefusalsHideTheAccount checks that a provider's text about the operator's account is dropped.
func TestRefusalsHideTheAccount(t *testing.T) {
	t.Parallel()
	for kind, want := range map[llm.Kind]string{
		llm.KindAuth: "", llm.KindQuota: "", llm.KindRateLimited: "", llm.KindInvalid: "about the account", llm.KindUnavailable: "about the account",
	} {
		for _, inBody := range []bool{true, false} {
			e, body := llm.NewError(kind, nil), []byte("about the account")
			if !inBody {
				e.Detail, body = "about the account", nil
			}
			describe(e, &http.Response{StatusCode: http.StatusTooManyRequests}, body, "")
			if e.Provider.Status != 429 || e.Provider.Message != want {
				t.Errorf("%s: %+v", kind, e.Provider)
			}
		}
	}
}
