package auth

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// voiceEnv is a testEnv whose resolver accepts client secrets. Its clock shows the time that the
// test has set.
type voiceEnv struct {
	*testEnv
	box   *secrets.Box
	clock time.Time
}

func newVoiceEnv(t *testing.T) *voiceEnv {
	t.Helper()
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	s := &voiceEnv{box: box, clock: time.Now()}
	s.testEnv = newTestEnvWith(t, NewWidgets(&fakeWidgets{}, box, watchFor(t, box)), func() time.Time { return s.clock })
	return s
}

// requestVoice authenticates a request for a voice connection. The arguments headers have the form
// "name: value".
func (s *voiceEnv) requestVoice(t *testing.T, need Need, headers ...string) (Identity, error) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/realtime", nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	if need < 0 {
		return s.VoiceAgain(req)
	}
	return s.Resolve(req, need)
}

const offers = "Sec-WebSocket-Protocol: "

func TestCredentialsOfVoiceConnections(t *testing.T) {
	t.Parallel()
	s := newVoiceEnv(t)
	org, cookie := "X-Organization-Id: ", "Cookie: "+CookieName+"="+s.session
	for name, c := range map[string]struct {
		headers []string
		org     string
		code    apierr.Code
	}{
		"key":                               {[]string{"X-Api-Key: " + s.orgKey}, s.org, ""},
		"key as bearer":                     {[]string{"Authorization: Bearer " + s.orgKey, offers + "realtime"}, s.org, ""},
		"login":                             {[]string{"Authorization: Bearer " + s.session}, s.first, ""},
		"key as protocol":                   {[]string{offers + "realtime, openai-insecure-api-key." + s.orgKey}, s.org, ""},
		"login as protocol, in two headers": {[]string{offers + "openai-insecure-api-key." + s.session, offers + "realtime"}, s.first, ""},
		"with a cookie":                     {[]string{cookie, offers + "realtime,openai-insecure-api-key." + s.orgKey}, s.org, ""},
		"user's key and organization":       {[]string{offers + "realtime, openai-insecure-api-key." + s.userKey + ", openai-organization." + s.second}, s.second, ""},
		"organization twice the same":       {[]string{org + s.second, offers + "openai-organization." + s.second, "X-Api-Key: " + s.userKey}, s.second, ""},

		"user's key alone":       {[]string{offers + "openai-insecure-api-key." + s.userKey}, "", apierr.OrganizationRequired},
		"foreign organization":   {[]string{offers + "openai-insecure-api-key." + s.userKey + ", openai-organization." + s.foreign}, "", apierr.PermissionDenied},
		"two organizations":      {[]string{org + s.first, offers + "openai-organization." + s.second, "X-Api-Key: " + s.userKey}, "", apierr.InvalidRequest},
		"empty organization":     {[]string{offers + "openai-organization.", "X-Api-Key: " + s.userKey}, "", apierr.InvalidRequest},
		"nothing":                {nil, "", apierr.Unauthenticated},
		"protocol alone":         {[]string{offers + "realtime"}, "", apierr.Unauthenticated},
		"cookie":                 {[]string{cookie}, "", apierr.Unauthenticated},
		"demo":                   {[]string{"X-Tenant-Id: tenant_demo"}, "", apierr.DemoRestricted},
		"empty credential":       {[]string{offers + "realtime, openai-insecure-api-key."}, "", apierr.InvalidRequest},
		"empty name":             {[]string{offers + "realtime,,x", "X-Api-Key: " + s.orgKey}, "", apierr.InvalidRequest},
		"nothing offered":        {[]string{offers, "X-Api-Key: " + s.orgKey}, "", apierr.InvalidRequest},
		"space within":           {[]string{offers + "openai-insecure-api-key." + s.orgKey + " x"}, "", apierr.InvalidRequest},
		"credential twice":       {[]string{offers + "openai-insecure-api-key." + s.orgKey + ", openai-insecure-api-key." + s.orgKey}, "", apierr.ConflictingCredentials},
		"header and protocol":    {[]string{"X-Api-Key: " + s.orgKey, offers + "openai-insecure-api-key." + s.orgKey}, "", apierr.ConflictingCredentials},
		"bearer and protocol":    {[]string{"Authorization: Bearer " + s.session, offers + "openai-insecure-api-key." + s.orgKey}, "", apierr.ConflictingCredentials},
		"malformed key":          {[]string{offers + "openai-insecure-api-key.ak_1"}, "", apierr.Unauthenticated},
		"key of another service": {[]string{offers + "openai-insecure-api-key.sk-1"}, "", apierr.Unauthenticated},
		"expired key":            {[]string{offers + "openai-insecure-api-key." + s.old}, "", apierr.Unauthenticated},
		"name of other case":     {[]string{offers + "OpenAI-Insecure-API-Key." + s.orgKey}, "", apierr.Unauthenticated},
		"malformed widget token": {[]string{"Authorization: Bearer wt_x"}, "", apierr.Unauthenticated},
	} {
		ident, err := s.requestVoice(t, NeedVoice, c.headers...)
		if (err == nil) != (c.code == "") || err != nil && apierr.CodeFor(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if err == nil && (ident.Caller.OrganizationID != c.org || ident.Caller.Kind != domain.CallerUser || ident.Secret != nil || ident.Via == ViaCookie) {
			t.Errorf("%s: %+v", name, ident)
		}
	}
}

// secretFor creates a client secret as the caller whom the headers authenticate.
func (s *voiceEnv) secretFor(t *testing.T, of ClientSecret, headers ...string) string {
	t.Helper()
	maker, err := s.requestVoice(t, NeedUser, headers...)
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.NewClientSecret(t.Context(), maker, of)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAClientSecretActsAsItsCreator(t *testing.T) {
	t.Parallel()
	s := newVoiceEnv(t)
	of := ClientSecret{
		Model: id.New(id.Agent), SessionID: "rt_1", Named: true, Session: json.RawMessage(`{"type":"realtime"}`),
		Expires: s.clock.Add(time.Minute).Truncate(time.Second),
	}
	makers := map[string][]string{
		"organization's key": {"X-Api-Key: " + s.orgKey},
		"user's key":         {"X-Api-Key: " + s.userKey, "X-Organization-Id: " + s.second},
		"login":              {"Authorization: Bearer " + s.session, "X-Organization-Id: " + s.second},
	}
	for name, headers := range makers {
		token := s.secretFor(t, of, headers...)
		for _, shown := range []string{"Authorization: Bearer " + token, offers + "realtime, openai-insecure-api-key." + token} {
			ident, err := s.requestVoice(t, NeedVoice, shown)
			maker, _ := s.requestVoice(t, NeedUser, headers...)
			if err != nil || ident.Caller != maker.Caller || ident.Via != ViaSecret || ident.Token != "" || len(ident.Organizations) > 0 {
				t.Errorf("%s: %+v, %v, want %+v", name, ident, err, maker)
				continue
			}
			got := *ident.Secret
			got.Session, of.Session = nil, nil
			if ident.Secret.Session == nil || !got.Expires.Equal(of.Expires) || got.Model != of.Model || got.SessionID != of.SessionID || !got.Named {
				t.Errorf("%s: %+v", name, ident.Secret)
			}
			of.Session = json.RawMessage(`{"type":"realtime"}`)
		}
		for need, want := range map[Need]apierr.Code{
			NeedUser: apierr.Unauthenticated, NeedDemo: apierr.Unauthenticated, NeedPublic: apierr.Unauthenticated,
			NeedKey: apierr.APIKeyRequired, NeedUserKey: apierr.APIKeyRequired,
		} {
			if _, err := s.requestVoice(t, need, "Authorization: Bearer "+token); apierr.CodeFor(err) != want {
				t.Errorf("%s, need %d: %v", name, need, err)
			}
		}
		for _, h := range []string{"X-Api-Key: ", "Cookie: " + CookieName + "="} {
			if _, err := s.requestVoice(t, NeedVoice, h+token); apierr.CodeFor(err) != apierr.Unauthenticated {
				t.Errorf("%s as %s: %v", name, h, err)
			}
		}
		if _, err := s.requestVoice(t, NeedVoice, "Authorization: Bearer "+token, "X-Organization-Id: "+s.foreign); apierr.CodeFor(err) != apierr.OrganizationMismatch {
			t.Errorf("%s in another organization: %v", name, err)
		}
	}
	token := s.secretFor(t, of, makers["login"]...)
	s.clock = of.Expires
	if _, err := s.requestVoice(t, NeedVoice, "Authorization: Bearer "+token); apierr.CodeFor(err) != apierr.Unauthenticated {
		t.Errorf("an expired client secret: %v", err)
	}
	if _, err := s.requestVoice(t, again, "Authorization: Bearer "+token); err != nil {
		t.Errorf("a connection that was opened before the secret expired: %v", err)
	}
}

// A client secret is valid only while the credential that created it is valid. That credential is
// cached no longer than any other credential.
func TestAClientSecretEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	s := newVoiceEnv(t)
	of := ClientSecret{Model: "tpl_x", SessionID: "s", Expires: s.clock.Add(time.Hour)}
	wants := func(what, token string, code apierr.Code) {
		t.Helper()
		for _, need := range []Need{NeedVoice, again} {
			ident, err := s.requestVoice(t, need, "Authorization: Bearer "+token)
			if (err == nil) != (code == "") || err != nil && apierr.CodeFor(err) != code || err == nil && ident.Until.After(s.clock.Add(remember)) {
				t.Errorf("%s: %+v, %v", what, ident, err)
			}
		}
	}
	later := func(change func()) {
		s.lookup.mu.Lock()
		change()
		s.lookup.mu.Unlock()
		s.clock = s.clock.Add(remember)
	}
	byKey := s.secretFor(t, of, "X-Api-Key: "+s.userKey, "X-Organization-Id: "+s.second)
	byLogin := s.secretFor(t, of, "Authorization: Bearer "+s.session, "X-Organization-Id: "+s.second)
	wants("key", byKey, "")
	wants("login", byLogin, "")
	keyID, _ := secrets.APIKeyID(s.userKey)
	hash := string(secrets.Hash(s.session))
	later(func() {
		for _, c := range []*accountdb.Credential{s.lookup.keys[keyID], s.lookup.logins[hash]} {
			c.Memberships = c.Memberships[:1]
		}
	})
	wants("key of one who has left", byKey, apierr.PermissionDenied)
	wants("login of one who has left", byLogin, apierr.PermissionDenied)
	byKey = s.secretFor(t, of, "X-Api-Key: "+s.userKey, "X-Organization-Id: "+s.first)
	byLogin = s.secretFor(t, of, "Authorization: Bearer "+s.session)
	later(func() {
		replaced := *s.lookup.keys[keyID]
		replaced.SecretHash = secrets.Hash("another")
		s.lookup.keys[keyID] = &replaced
		delete(s.lookup.logins, hash)
	})
	wants("key of another secret", byKey, apierr.Unauthenticated)
	wants("login that has ended", byLogin, apierr.Unauthenticated)
	later(func() { s.lookup.err = apierr.New(apierr.Unavailable, "away") })
	wants("without a database", byKey, apierr.Unavailable)
}

func TestBadClientSecrets(t *testing.T) {
	t.Parallel()
	s := newVoiceEnv(t)
	good := s.secretFor(t, ClientSecret{Model: "m", SessionID: "s", Expires: s.clock.Add(time.Hour)}, "X-Api-Key: "+s.orgKey)
	other, err := secrets.NewBox(strings.Repeat("cd", 32))
	if err != nil {
		t.Fatal(err)
	}
	letter := "A"
	if good[40] == 'A' {
		letter = "B"
	}
	for name, token := range map[string]string{
		"nothing": "ek_", "not sealed": "ek_e30", "tampered": good[:40] + letter + good[41:], "cut": good[:len(good)-3],
		"another service's": other.SealClientSecret([]byte(`{}`)), "a widget token": "ek_" + s.box.SealWidgetToken([]byte(`{}`))[3:],
		"no claims": s.box.SealClientSecret(nil), "no object": s.box.SealClientSecret([]byte(`"x"`)), "empty claims": s.box.SealClientSecret([]byte(`{}`)),
		"of a short hash": s.box.SealClientSecret([]byte(`{"h":"AAAA","x":99999999999}`)),
	} {
		if _, err := s.requestVoice(t, NeedVoice, "Authorization: Bearer "+token); apierr.CodeFor(err) != apierr.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	maker, err := s.requestVoice(t, NeedUser, "X-Api-Key: "+s.orgKey)
	if err != nil {
		t.Fatal(err)
	}
	long := ClientSecret{Session: json.RawMessage(`"` + strings.Repeat("x", secrets.ClientSecretRoom) + `"`)}
	if _, err := s.NewClientSecret(t.Context(), maker, long); apierr.CodeFor(err) != apierr.InvalidRequest {
		t.Errorf("a secret that is too long: %v", err)
	}
	maker.Caller.KeyID = id.New(id.Key)
	if _, err := s.NewClientSecret(t.Context(), maker, ClientSecret{}); apierr.CodeFor(err) != apierr.Unauthenticated {
		t.Errorf("created with a revoked key: %v", err)
	}
}
