package secrets

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func TestTokensAreOpenedAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	older := hex.EncodeToString(testKey('a'))
	b, rotated, other := newBox(t, older), newBox(t, hex.EncodeToString(testKey('b'))+","+older), newBox(t, hex.EncodeToString(testKey('b')))
	for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long "), 100)} {
		token, again := b.SealWidgetToken(plain), b.SealWidgetToken(plain)
		if token == again || !IsWidgetToken(token) || len(plain) > 4 && strings.Contains(token, "bG9uZ") {
			t.Errorf("%s and %s", token, again)
		}
		for name, box := range map[string]*Box{"its own": b, "rotated": rotated} {
			if got, err := box.OpenWidgetToken(token); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s key = %q, %v", name, got, err)
			}
		}
		visitor := b.SealVisitorToken(plain, "here")
		if got, err := b.OpenVisitorToken(visitor, "here"); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("visitor: %q, %v", got, err)
		}
		for name, wrong := range map[string]func() ([]byte, error){
			"another key":               func() ([]byte, error) { return other.OpenWidgetToken(token) },
			"another place":             func() ([]byte, error) { return b.OpenVisitorToken(visitor, "there") },
			"a client secret, renamed":  func() ([]byte, error) { return b.OpenWidgetToken("wt_" + b.SealClientSecret(plain)[3:]) },
			"renamed to a client's":     func() ([]byte, error) { return b.OpenClientSecret("ek_" + token[3:]) },
			"a visitor's":               func() ([]byte, error) { return b.OpenWidgetToken(visitor) },
			"a visitor's, renamed":      func() ([]byte, error) { return b.OpenWidgetToken("wt_" + visitor[3:]) },
			"a widget's, renamed":       func() ([]byte, error) { return b.OpenVisitorToken("vt_"+token[3:], "") },
			"a sealed value, renamed":   func() ([]byte, error) { return b.OpenWidgetToken("wt_" + b.Seal("x", "")) },
			"nothing":                   func() ([]byte, error) { return b.OpenWidgetToken("") },
			"the start alone":           func() ([]byte, error) { return b.OpenWidgetToken("wt_") },
			"cut short":                 func() ([]byte, error) { return b.OpenWidgetToken(token[:len(token)-4]) },
			"cut to its head":           func() ([]byte, error) { return b.OpenWidgetToken(token[:3+(keyIDSize+saltSize)*4/3]) },
			"a line break":              func() ([]byte, error) { return b.OpenWidgetToken(token[:9] + "\n" + token[9:]) },
			"longer than any":           func() ([]byte, error) { return b.OpenWidgetToken("wt_" + strings.Repeat("A", maxSealed+1)) },
			"not in the coding's signs": func() ([]byte, error) { return b.OpenWidgetToken("wt_ä") },
		} {
			if got, err := wrong(); err == nil {
				t.Errorf("%s was opened: %q", name, got)
			}
		}
		for i := 3; i < len(token); i++ { // any change is detected
			changed := []byte(token)
			changed[i] = changed[i]&^3 | (changed[i]+1)&3
			if got, err := b.OpenWidgetToken(string(changed)); err == nil && string(changed) != token {
				t.Errorf("changed at %d it was opened: %q", i, got)
			}
		}
	}
}

// A client secret can contain ClientSecretRoom bytes and no more.
func TestClientSecretsHoldSettings(t *testing.T) {
	t.Parallel()
	b := newBox(t, hex.EncodeToString(testKey('a')))
	full := bytes.Repeat([]byte("x"), ClientSecretRoom)
	token := b.SealClientSecret(full)
	if got, err := b.OpenClientSecret(token); err != nil || !bytes.Equal(got, full) || !IsClientSecret(token) || len(token) > 8000 {
		t.Errorf("a full one of %d characters: %v", len(token), err)
	}
	if _, err := b.OpenClientSecret(b.SealClientSecret(append(full, "xyz"...))); err == nil {
		t.Error("one that is too full was opened")
	}
	for i := 3; i < len(token); i += 97 {
		changed := []byte(token)
		changed[i] = changed[i]&^3 | (changed[i]+1)&3
		if _, err := b.OpenClientSecret(string(changed)); err == nil && string(changed) != token {
			t.Errorf("changed at %d it was opened", i)
		}
	}
}
