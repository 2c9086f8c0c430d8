package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"parley/shared/secrets"
)

func signer(tb testing.TB, keys ...byte) *secrets.Signer {
	tb.Helper()
	var setting []string
	for _, fill := range keys {
		setting = append(setting, hex.EncodeToString(bytes.Repeat([]byte{fill}, 32)))
	}
	s, err := secrets.NewSigner(strings.Join(setting, ","))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestSignerVerifiesWhatItSigned(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	for _, claims := range []string{"", "{}", `{"org":"org_1"}`, strings.Repeat("x", 4000), "\x00\xff."} {
		for _, body := range []string{"", "body", strings.Repeat("b", 1<<20)} {
			got, err := s.Verify(s.Sign([]byte(claims), []byte(body)), []byte(body))
			if err != nil || string(got) != claims {
				t.Errorf("%.20q with %.20q: %.20q, %v", claims, body, got, err)
			}
		}
	}
	if a, b := signer(t, 1), signer(t, 1); a.Sign([]byte("c"), nil) != b.Sign([]byte("c"), nil) {
		t.Error("two processes with one key sign differently")
	}
}

func TestSignerRefusesWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	claims, body := []byte(`{"run":"run_1"}`), []byte(`{"name":"pay"}`)
	token := s.Sign(claims, body)
	first, second, _ := strings.Cut(token, ".")
	enc := base64.RawURLEncoding.EncodeToString
	for name, c := range map[string]struct {
		token string
		body  []byte
	}{
		"nothing":              {"", body},
		"a point":              {".", body},
		"claims alone":         {first, body},
		"claims and a point":   {first + ".", body},
		"signature alone":      {"." + second, body},
		"another body":         {token, []byte(`{"name":"pay2"}`)},
		"no body":              {token, nil},
		"a longer body":        {token, append(bytes.Clone(body), 0)},
		"other claims":         {enc([]byte(`{"run":"run_2"}`)) + "." + second, body},
		"longer claims":        {enc(append(bytes.Clone(claims), ' ')) + "." + second, body},
		"claims moved":         {enc(claims[:len(claims)-1]) + "." + second, append([]byte{claims[len(claims)-1]}, body...)},
		"another signature":    {first + "." + enc(make([]byte, 32)), body},
		"signature cut short":  {first + "." + second[:len(second)-2], body},
		"signature lengthened": {token + "AA", body},
		"a third part":         {token + "." + second, body},
		"a space":              {token + " ", body},
		"a line":               {first + "\n." + second, body},
		"a line at the end":    {token + "\n", body},
		"padded":               {token + "=", body},
		"another alphabet":     {strings.ReplaceAll(first, "e", "+") + "." + second, body},
		"another key":          {signer(t, 2).Sign(claims, body), body},
		"an older key":         {signer(t, 2, 1).Sign(claims, body), body},
		"too long":             {s.Sign(bytes.Repeat([]byte("x"), 8<<10), body), body},
	} {
		if got, err := s.Verify(c.token, c.body); !errors.Is(err, secrets.ErrUnsigned) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for n := range token { // detects a change of any single character, including a change of the unused bits of the last character
		for _, other := range []byte("AB-_=.") {
			if wrong := []byte(token); wrong[n] != other {
				wrong[n] = other
				if _, err := s.Verify(string(wrong), body); err == nil {
					t.Errorf("character %d changed to %c is accepted", n, other)
				}
			}
		}
	}
}

func TestSignerRotatesKeys(t *testing.T) {
	t.Parallel()
	old, fresh := signer(t, 1), signer(t, 2)
	knows, rotated := signer(t, 1, 2), signer(t, 2, 1) // a new key is first added at the end, and later becomes the first one
	for name, c := range map[string]struct {
		by, at *secrets.Signer
		holds  bool
	}{
		"old to one that knows the new": {old, knows, true},
		"rotated to one that knows":     {rotated, knows, true},
		"one that knows to rotated":     {knows, rotated, true},
		"one that knows to old":         {knows, old, true},
		"rotated to fresh":              {rotated, fresh, true},
		"rotated to old":                {rotated, old, false},
		"old to fresh":                  {old, fresh, false},
	} {
		if _, err := c.at.Verify(c.by.Sign([]byte("c"), []byte("b")), []byte("b")); (err == nil) != c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignerNeedsAKey(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"", "short", strings.Repeat("ab", 32) + ",", strings.Repeat("zq", 32)} {
		if _, err := secrets.NewSigner(setting); err == nil || setting != "" && strings.Contains(err.Error(), setting) {
			t.Errorf("%q: %v", setting, err)
		}
	}
}

func FuzzSigner(f *testing.F) {
	s := signer(f, 1, 2)
	claims, body := []byte(`{"run":"run_1"}`), []byte("body")
	token := s.Sign(claims, body)
	f.Add(token, body)
	f.Add(strings.ToLower(token), body)
	f.Add(token+".", body)
	f.Add(".", []byte{})
	f.Fuzz(func(t *testing.T, forged string, forBody []byte) {
		got, err := s.Verify(forged, forBody)
		if known := forged == token && bytes.Equal(forBody, body); known != (err == nil) {
			t.Errorf("%q for %q: %q, %v", forged, forBody, got, err)
		}
	})
}
