package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

func testKey(fill byte) []byte { return []byte(strings.Repeat(string(rune(fill)), keySize)) }

func newBox(t *testing.T, setting string) *Box {
	t.Helper()
	b, err := NewBox(setting)
	if err != nil {
		t.Fatalf("making box: %v", err)
	}
	return b
}

func TestBoxOpensWhatItSealed(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"hex":         hex.EncodeToString(testKey('a')),
		"base64":      base64.StdEncoding.EncodeToString(testKey('a')),
		"raw base64":  base64.RawStdEncoding.EncodeToString(testKey('a')),
		"url base64":  base64.URLEncoding.EncodeToString(testKey(0x7f)),
		"two of them": hex.EncodeToString(testKey('a')) + " , " + hex.EncodeToString(testKey('b')),
	} {
		b := newBox(t, setting)
		for _, plain := range []string{"", "Bearer hunter2", "grüße"} {
			sealed := b.Seal(plain, "here")
			if plain != "" && strings.Contains(sealed, plain) {
				t.Errorf("%s: sealed value shows the plain one", name)
			}
			if again := b.Seal(plain, "here"); again == sealed {
				t.Errorf("%s: sealed the same value twice to the same text", name)
			}
			got, err := b.Open(sealed, "here")
			if err != nil || got != plain {
				t.Errorf("%s: opened %q, %v; want %q", name, got, err, plain)
			}
		}
	}
}

func TestBoxRotatesKeys(t *testing.T) {
	t.Parallel()
	old, fresh := hex.EncodeToString(testKey('a')), hex.EncodeToString(testKey('b'))
	sealed := newBox(t, old).Seal("secret", "here")
	rotated := newBox(t, fresh+","+old)
	if got, err := rotated.Open(sealed, "here"); err != nil || got != "secret" {
		t.Errorf("rotated box opened %q, %v", got, err)
	}
	if _, err := newBox(t, old).Open(rotated.Seal("secret", "here"), "here"); !errors.Is(err, ErrSealed) {
		t.Errorf("rotated box still seals with the old key: %v", err)
	}
}

func TestBoxRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t, hex.EncodeToString(testKey('a')))
	sealed := b.Seal("secret", AgentHeaders("org_1", "ag_1"))
	flipped := sealed[:len(sealed)-3] + strings.Map(func(r rune) rune {
		if r == 'A' {
			return 'B'
		}
		return 'A'
	}, sealed[len(sealed)-3:len(sealed)-2]) + sealed[len(sealed)-2:]
	for name, c := range map[string]struct{ sealed, place string }{
		"another agent": {sealed, AgentHeaders("org_1", "ag_2")},
		"changed":       {flipped, AgentHeaders("org_1", "ag_1")},
		"cut short":     {sealed[:20], AgentHeaders("org_1", "ag_1")},
		"not sealed":    {"secret", AgentHeaders("org_1", "ag_1")},
		"empty":         {"", ""},
		"not base64":    {version + b.sealing + ".???", ""},
	} {
		if got, err := b.Open(c.sealed, c.place); !errors.Is(err, ErrSealed) || got != "" {
			t.Errorf("%s: opened %q, %v", name, got, err)
		}
	}
	for _, setting := range []string{"", "short", hex.EncodeToString(testKey('a')) + ",", strings.Repeat("z", 64)} {
		if _, err := NewBox(setting); err == nil || setting != "" && strings.Contains(err.Error(), setting) {
			t.Errorf("setting %q: %v", setting, err)
		}
	}
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	k := NewAPIKey()
	if len(k.Key) != keyLen || !id.Valid(id.Key, k.ID) || !strings.HasPrefix(k.Key, domain.KeyPrefix(k.ID)+"_") {
		t.Errorf("unexpected key %q of %q", k.Key, k.ID)
	}
	if got, ok := APIKeyID(k.Key); !ok || got != k.ID {
		t.Errorf("read id %q, %v; want %q", got, ok, k.ID)
	}
	for i := range k.Key { // every change of a single character is detected
		wrong := []byte(k.Key)
		wrong[i]++
		if _, ok := APIKeyID(string(wrong)); ok {
			t.Errorf("accepted key with character %d changed", i)
		}
	}
	for _, s := range []string{"", "ak_", k.Key + "0", k.Key[:len(k.Key)-1], "sk" + k.Key[2:]} {
		if _, ok := APIKeyID(s); ok {
			t.Errorf("accepted %q", s)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	session, link := NewSessionToken(), NewLinkToken()
	if !IsSessionToken(session) || IsLinkToken(session) || !IsLinkToken(link) || IsSessionToken(link) {
		t.Errorf("tokens %q and %q are not distinguished", session, link)
	}
	invitation, reset := NewInvitationToken(), NewResetToken()
	for name, c := range map[string]struct{ own, other bool }{
		"invitation": {IsInvitationToken(invitation), IsInvitationToken(reset) || IsInvitationToken(link) || IsLinkToken(invitation)},
		"reset":      {IsResetToken(reset), IsResetToken(invitation) || IsResetToken(link) || IsLinkToken(reset) || IsSessionToken(reset)},
	} {
		if !c.own || c.other {
			t.Errorf("%s token: own kind %v, another %v", name, c.own, c.other)
		}
	}
	for _, s := range []string{"", "ps_", session + "0", session[:len(session)-1] + "-"} {
		if IsSessionToken(s) {
			t.Errorf("accepted %q", s)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[NewSessionToken()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different tokens of 1000", len(seen))
	}
}
