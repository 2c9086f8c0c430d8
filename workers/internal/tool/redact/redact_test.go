package redact_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
	"parley/workers/internal/tool/redact"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, text, want string }{
		{"Authorization", "Bearer abc-123-def", "got Bearer abc-123-def", "got ***"},
		{"Authorization", "Bearer abc-123-def", "got abc-123-def", "got ***"},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:lovelace")), "ada:lovelace lovelace YWRhOmxvdmVsYWNl", "*** *** ***"},
		{"X-Key", `a"b/c&d e`, `a"b/c&d e a\"b/c&d e a\"b/c\u0026d e a%22b%2Fc%26d+e a%22b%2Fc&d%20e`, "*** *** *** *** ***"},
		{"X-Key", `"quoted"`, `{\"quoted\"} "quoted"`, "{***} ***"},
		{"X-Key", "short", "short", "short"},
		{"X-Key", "secret", "a\x00se\x00cret\xff", "a***\uFFFD"},
		{"Accept", "text/html", "text/html", "text/html"},
		{"User-Agent", "Parley", "Parley", "Parley"},
	} {
		var s redact.Secrets
		s.Header(c.name, c.value)
		if got := s.Redactor().Text(c.text); got != c.want {
			t.Errorf("%s: %s: got %q", c.name, c.value, got)
		}
	}
}

// A server may send a secret back in encoded form, as the whole text or within a longer text, in
// upper or lower case.
func TestEncodedSecrets(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"s3cret", "sk-Live_4711>>??abc", "pässwörd/+=x"} {
		var s redact.Secrets
		s.Add(secret)
		r := s.Redactor()
		for _, around := range []string{"", "u", "us", "user:", "Bearer "} {
			plain := []byte(around + secret + around)
			for name, encoded := range map[string]string{
				"base64": base64.StdEncoding.EncodeToString(plain), "raw base64": base64.RawStdEncoding.EncodeToString(plain),
				"URL base64": base64.URLEncoding.EncodeToString(plain), "raw URL base64": base64.RawURLEncoding.EncodeToString(plain),
				"hex": hex.EncodeToString(plain), "upper hex": strings.ToUpper(hex.EncodeToString(plain)),
			} {
				got := r.Text("got " + encoded + ".")
				// The first and last characters of the encoded secret may also encode bits of an
				// adjacent byte. At most one such character may remain at each end.
				left := strings.Replace(got, "***", "", 1)
				limit := len(encoded) - (4*len(secret)-3)/3 + 2 + len("got .")
				if !strings.Contains(got, "***") || len(left) > limit {
					t.Errorf("%s of %s: got %s", name, plain, got)
				}
			}
		}
		for _, text := range []string{secret, url.QueryEscape(secret)} {
			upper := strings.Map(func(r rune) rune { return map[bool]rune{true: r - 'a' + 'A', false: r}['a' <= r && r <= 'z'] }, text)
			if got := r.Text("<" + upper + ">"); got != "<***>" {
				t.Errorf("%s became %s", upper, got)
			}
		}
		if got := r.Broken("x " + base64.StdEncoding.EncodeToString([]byte(secret))[:6]); got != "x " {
			t.Errorf("the beginning of the base64 of %s became %q", secret, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, secrets := range map[string]string{
		"https://a.test/mcp?api_key=abc-def&view=detailed&accessToken=x%2Fy%2Bz1": "abc-def x/y+z1 x%2Fy%2Bz1",
		"https://a.test/s/Zm9vYmFyYmF6cXV4MTIz/mcp?q=0a1b2c3d4e5f6a7b":            "Zm9vYmFyYmF6cXV4MTIz 0a1b2c3d4e5f6a7b",
		"https://user:password@a.test/?token=bad%zzone#x":                         "password bad%zzone",
		"https://a.test/customer-records-v2/2024-11-30?sort=newest-first-of-2024": "",
		"https://a.test/{customer_identifier_1}?key={some_long_variable_12}":      "",
		"https://a.test:99999/?sig=abcdefgh":                                      "abcdefgh",
	} {
		var s redact.Secrets
		s.Address(address)
		r := s.Redactor()
		for secret := range strings.FieldsSeq(secrets) {
			if got := r.Text("<" + secret + ">"); got != "<***>" {
				t.Errorf("%s: %s became %s", address, secret, got)
			}
		}
		common := "customer-records-v2 of 2024-11-30, newest-first-of-2024, the detailed view of /mcp at a.test: {customer_identifier_1} {some_long_variable_12} api_key"
		if got := r.Text(common); got != common {
			t.Errorf("%s: %s", address, got)
		}
	}
}

func TestLongerSecretsGoFirst(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("abcdef", "abcdefghi", "defghijkl")
	if got := s.Redactor().Text("abcdefghi abcdef"); got != "*** ***" {
		t.Error(got)
	}
}

func TestBrokenTextsEndBeforeASecret(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("s€cret-one", "zwei-mal")
	r := s.Redactor()
	for text, want := range map[string]string{
		"x s€cret-one y": "x *** y", "x s€cret-on": "x ", "x s\xe2\x82": "x ", "x s€cret-one zwei": "x *** ", "xs": "x", "x": "x", "": "",
	} {
		if got := r.Broken(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("s3cret-1", "1234567")
	for in, want := range map[string]string{
		`{"s3cret-1":["s3cret-1",1,null,true],"n":1234567}`: `{"***":["***",1,null,true],"n":"***"}`,
		`[91234567.5, 123456, "123456"]`:                    `["9***.5",123456,"123456"]`,
		`"a\u0000b"`:                                        `"ab"`,
	} {
		for _, exact := range []bool{true, false} {
			d := json.NewDecoder(strings.NewReader(in))
			if exact {
				d.UseNumber()
			}
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			got, err := s.Redactor().Value(t.Context(), v)
			raw, encodeErr := json.Marshal(got)
			if err != nil || encodeErr != nil || string(raw) != want {
				t.Errorf("%s: got %s, %v", in, raw, err)
			}
		}
	}
}

func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for _, r := range []*redact.Redactor{nil, new(redact.Secrets).Redactor()} {
		v, err := r.Value(t.Context(), []any{"a\x00", 1.5, json.Number("1234567890")})
		if r.Text("a\x00b") != "ab" || r.Broken("ab\xff") != "ab" || err != nil || !reflect.DeepEqual(v, []any{"a", 1.5, json.Number("1234567890")}) {
			t.Errorf("%v, %v", v, err)
		}
	}
}

// ones returns the parsed form of a JSON list [1,1,…] whose text is about a megabyte long.
func ones(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = json.Number("1")
	}
	return list
}

func TestManySecretsAndValuesTakeLittleTime(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	for n := range 20 {
		s.Header("X-Key", fmt.Sprintf("Bearer %d/%s+", 1_000_000+n, strings.Repeat("k ", 20)))
		s.Add(fmt.Sprint(7_000_000 + n))
	}
	r := s.Redactor()
	for name, list := range map[string]func() []any{
		"numbers": func() []any { return ones(1 << 19) },
		"texts": func() []any {
			list := make([]any, 1<<18)
			for i := range list {
				list[i] = "ab"
			}
			return list
		},
		"one text": func() []any { return []any{strings.Repeat("Bearer 1000000/k ", 1<<16)} },
	} {
		least := time.Hour
		for range 3 {
			v := list()
			var err error
			least = min(least, cputime.Of(func() { _, err = r.Value(t.Context(), v) }))
			if err != nil {
				t.Fatal(err)
			}
		}
		if least > 400*time.Millisecond { // about 10 ms on an idle machine; a search of each value for each secret would take seconds
			t.Errorf("%s: %v", name, least)
		}
	}
}

func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	var r *redact.Redactor
	if _, err := r.Value(t.Context(), ones(600_000)); !errors.Is(err, redact.ErrTooMany) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := r.Value(ctx, "x"); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	var s redact.Secrets
	s.Add("s3cret-1")
	inner := &url.Error{Op: "Get", URL: "https://a.test/?key=s3cret-1", Err: io.ErrUnexpectedEOF}
	err := s.Redactor().Err(fmt.Errorf("asking: %w", inner))
	if err.Error() != `asking: Get "https://a.test/?key=***": unexpected EOF` || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got, found := errors.AsType[*url.Error](err); found {
		t.Errorf("%v can be had", got)
	}
	if err := s.Redactor().Err(nil); err != nil {
		t.Error(err)
	}
}
