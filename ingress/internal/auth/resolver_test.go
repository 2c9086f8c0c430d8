package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// fakeLookup stores credentials in memory and counts reads.
type fakeLookup struct {
	mu      sync.Mutex
	keys    map[string]*accountdb.Credential
	logins  map[string]*accountdb.Credential
	reads   int
	touched map[string]time.Time
	err     error
}

func (f *fakeLookup) KeyCredentials(_ context.Context, ids []string) (map[string]*accountdb.Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	out := map[string]*accountdb.Credential{}
	for _, keyID := range ids {
		if c := f.keys[keyID]; c != nil {
			out[keyID] = c
		}
	}
	return out, f.err
}

func (f *fakeLookup) LoginCredentials(_ context.Context, hashes [][]byte) (map[string]*accountdb.Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	out := map[string]*accountdb.Credential{}
	for _, hash := range hashes {
		if c := f.logins[string(hash)]; c != nil {
			out[string(hash)] = c
		}
	}
	return out, f.err
}

func (f *fakeLookup) Touch(_ context.Context, used map[string]time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.touched = used
	return f.err
}

// testEnv is a resolver with one credential of each kind.
type testEnv struct {
	*Resolver
	lookup                        *fakeLookup
	orgKey, userKey, old, session string
	lapsed                        string
	org, first, second, foreign   string
	user                          string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, nil, time.Now)
}

func newTestEnvWith(t *testing.T, widgets *Widgets, now func() time.Time) *testEnv {
	t.Helper()
	w := &testEnv{
		lookup: &fakeLookup{keys: map[string]*accountdb.Credential{}, logins: map[string]*accountdb.Credential{}},
		org:    id.New(id.Organization), first: id.New(id.Organization), second: id.New(id.Organization),
		foreign: id.New(id.Organization), user: id.New(id.User),
	}
	standings := []accountdb.Standing{{OrganizationID: w.first, Role: domain.RoleOwner}, {OrganizationID: w.second, Role: domain.RoleMember}}
	w.orgKey = w.addKey(accountdb.Credential{OrganizationID: w.org})
	w.userKey = w.addKey(accountdb.Credential{UserID: w.user, Memberships: standings})
	w.old = w.addKey(accountdb.Credential{OrganizationID: w.org, ExpiresAt: time.Now().Add(-time.Second)})
	w.session = w.addLogin(accountdb.Credential{UserID: w.user, Memberships: standings, ExpiresAt: time.Now().Add(time.Hour)})
	w.lapsed = w.addLogin(accountdb.Credential{UserID: w.user, Memberships: standings, ExpiresAt: time.Now().Add(-time.Second)})
	w.Resolver = New(w.lookup, widgets, nil)
	w.now = now
	done := make(chan struct{})
	go func() { defer close(done); w.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return w
}

func (w *testEnv) addKey(c accountdb.Credential) string {
	k := secrets.NewAPIKey()
	c.KeyID, c.Label, c.SecretHash = k.ID, k.ID, k.Hash
	w.lookup.keys[k.ID] = &c
	return k.Key
}

func (w *testEnv) addLogin(c accountdb.Credential) string {
	token := secrets.NewSessionToken()
	c.SecretHash, c.Label = secrets.Hash(token), "login_x"
	w.lookup.logins[string(c.SecretHash)] = &c
	return token
}

func request(headers ...string) *http.Request {
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/api/agents", nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	unknownKey, unknownToken := secrets.NewAPIKey().Key, secrets.NewSessionToken()
	cookie := func(token string) string { return CookieName + "=" + token }
	const ok = apierr.Code("")
	const key, bearer, org, tenant, jar = "x-api-key", "authorization", "x-organization-id", "x-tenant-id", "cookie"
	for name, c := range map[string]struct {
		need    Need
		headers []string
		code    apierr.Code
		org     string
		role    domain.Role
		kind    domain.CallerKind
	}{
		"nothing":                       {NeedUser, nil, apierr.Unauthenticated, "", "", ""},
		"nothing, public":               {NeedPublic, nil, ok, "", "", ""},
		"organization's key":            {NeedUser, []string{key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"organization's key as bearer":  {NeedUser, []string{bearer, "Bearer " + w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"its own organization":          {NeedUser, []string{key, w.orgKey, org, w.org}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"a foreign organization":        {NeedUser, []string{key, w.orgKey, org, w.first}, apierr.OrganizationMismatch, "", "", ""},
		"user's key":                    {NeedUser, []string{key, w.userKey, org, w.second}, ok, w.second, domain.RoleMember, domain.CallerUser},
		"user's key without":            {NeedUser, []string{key, w.userKey}, apierr.OrganizationRequired, "", "", ""},
		"user's key without, public":    {NeedPublic, []string{key, w.userKey}, ok, "", "", domain.CallerUser},
		"user's key elsewhere":          {NeedUser, []string{key, w.userKey, org, w.foreign}, apierr.PermissionDenied, "", "", ""},
		"bearer":                        {NeedUser, []string{bearer, "bearer " + w.session}, ok, w.first, domain.RoleOwner, domain.CallerUser},
		"bearer, second organization":   {NeedUser, []string{bearer, "Bearer " + w.session, org, w.second}, ok, w.second, domain.RoleMember, domain.CallerUser},
		"bearer, foreign organization":  {NeedUser, []string{bearer, "Bearer " + w.session, org, w.foreign}, apierr.PermissionDenied, "", "", ""},
		"bearer, malformed org":         {NeedUser, []string{bearer, "Bearer " + w.session, org, "nonsense"}, apierr.PermissionDenied, "", "", ""},
		"cookie":                        {NeedUser, []string{jar, cookie(w.session)}, ok, w.first, domain.RoleOwner, domain.CallerUser},
		"key beats cookie":              {NeedUser, []string{jar, cookie(w.session), key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"broken key, good cookie":       {NeedUser, []string{jar, cookie(w.session), key, unknownKey}, apierr.Unauthenticated, "", "", ""},
		"broken cookie, good key":       {NeedUser, []string{jar, cookie("x"), key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"key and bearer":                {NeedUser, []string{key, w.orgKey, bearer, "Bearer " + w.session}, apierr.ConflictingCredentials, "", "", ""},
		"key twice the same way":        {NeedUser, []string{key, w.orgKey, key, w.orgKey}, apierr.InvalidRequest, "", "", ""},
		"key in both":                   {NeedUser, []string{key, w.orgKey, bearer, "Bearer " + w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"two keys":                      {NeedUser, []string{key, w.orgKey, bearer, "Bearer " + w.userKey}, apierr.ConflictingCredentials, "", "", ""},
		"key and empty bearer":          {NeedUser, []string{key, w.orgKey, bearer, "Bearer"}, apierr.ConflictingCredentials, "", "", ""},
		"unknown key in both":           {NeedUser, []string{key, unknownKey, bearer, "Bearer " + unknownKey}, apierr.Unauthenticated, "", "", ""},
		"joined keys":                   {NeedUser, []string{key, w.orgKey + "," + w.orgKey}, apierr.InvalidRequest, "", "", ""},
		"empty key":                     {NeedUser, []string{key, ""}, apierr.InvalidRequest, "", "", ""},
		"spaced key":                    {NeedUser, []string{key, w.orgKey + " x"}, apierr.InvalidRequest, "", "", ""},
		"empty key, good cookie":        {NeedUser, []string{key, "", jar, cookie(w.session)}, apierr.InvalidRequest, "", "", ""},
		"two bearers":                   {NeedUser, []string{bearer, "Bearer " + w.session, bearer, "Bearer " + w.session}, apierr.InvalidRequest, "", "", ""},
		"joined bearers":                {NeedUser, []string{bearer, "Bearer " + w.session + ", Bearer x"}, apierr.InvalidRequest, "", "", ""},
		"empty bearer":                  {NeedUser, []string{bearer, "Bearer"}, apierr.InvalidRequest, "", "", ""},
		"empty authorization":           {NeedUser, []string{bearer, ""}, apierr.InvalidRequest, "", "", ""},
		"basic":                         {NeedUser, []string{bearer, "Basic YTpi"}, apierr.Unauthenticated, "", "", ""},
		"basic, public":                 {NeedPublic, []string{bearer, "Basic YTpi"}, apierr.Unauthenticated, "", "", ""},
		"unknown bearer":                {NeedUser, []string{bearer, "Bearer " + unknownToken}, apierr.Unauthenticated, "", "", ""},
		"widget token":                  {NeedUser, []string{bearer, "Bearer wt_abc"}, apierr.Unauthenticated, "", "", ""},
		"unknown key":                   {NeedPublic, []string{key, unknownKey}, apierr.Unauthenticated, "", "", ""},
		"key with wrong checksum":       {NeedUser, []string{key, w.orgKey[:len(w.orgKey)-1] + "~"}, apierr.Unauthenticated, "", "", ""},
		"expired key":                   {NeedUser, []string{key, w.old}, apierr.Unauthenticated, "", "", ""},
		"expired session":               {NeedUser, []string{jar, cookie(w.lapsed)}, apierr.Unauthenticated, "", "", ""},
		"two cookies":                   {NeedUser, []string{jar, cookie(w.session) + "; " + cookie(w.session)}, apierr.InvalidRequest, "", "", ""},
		"empty cookie":                  {NeedUser, []string{jar, cookie("")}, apierr.InvalidRequest, "", "", ""},
		"two organizations":             {NeedUser, []string{key, w.orgKey, org, w.org, org, w.org}, apierr.InvalidRequest, "", "", ""},
		"empty organization":            {NeedUser, []string{key, w.orgKey, org, ""}, apierr.InvalidRequest, "", "", ""},
		"demo on chat":                  {NeedDemo, []string{tenant, domain.DemoTenant}, ok, domain.DemoOrganization, "", domain.CallerDemo},
		"demo on templates":             {NeedPublic, []string{tenant, domain.DemoTenant}, ok, domain.DemoOrganization, "", domain.CallerDemo},
		"demo elsewhere":                {NeedUser, []string{tenant, domain.DemoTenant}, apierr.DemoRestricted, "", "", ""},
		"demo on login":                 {NeedNobody, []string{tenant, domain.DemoTenant}, apierr.DemoRestricted, "", "", ""},
		"demo on run-automation":        {NeedKey, []string{tenant, domain.DemoTenant}, apierr.DemoRestricted, "", "", ""},
		"demo and key":                  {NeedUser, []string{tenant, domain.DemoTenant, key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"demo and broken key":           {NeedDemo, []string{tenant, domain.DemoTenant, key, unknownKey}, apierr.Unauthenticated, "", "", ""},
		"another tenant":                {NeedPublic, []string{tenant, "tenant_x"}, apierr.InvalidRequest, "", "", ""},
		"empty tenant":                  {NeedPublic, []string{tenant, ""}, apierr.InvalidRequest, "", "", ""},
		"two tenants":                   {NeedDemo, []string{tenant, domain.DemoTenant, tenant, domain.DemoTenant}, apierr.InvalidRequest, "", "", ""},
		"another tenant and key":        {NeedUser, []string{tenant, "tenant_x", key, w.orgKey}, apierr.InvalidRequest, "", "", ""},
		"login with a stale cookie":     {NeedNobody, []string{jar, cookie(w.lapsed)}, ok, "", "", ""},
		"login with two cookies":        {NeedNobody, []string{jar, cookie("a") + "; " + cookie("b")}, ok, "", "", ""},
		"run-automation by key":         {NeedKey, []string{key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerSystem},
		"run-automation by bearer key":  {NeedKey, []string{bearer, "Bearer " + w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerSystem},
		"run-automation by user's key":  {NeedKey, []string{key, w.userKey, org, w.second}, ok, w.second, domain.RoleMember, domain.CallerSystem},
		"run-automation by cookie":      {NeedKey, []string{jar, cookie(w.session)}, apierr.APIKeyRequired, "", "", ""},
		"run-automation by bearer":      {NeedKey, []string{bearer, "Bearer " + w.session}, apierr.APIKeyRequired, "", "", ""},
		"run-automation, anonymous":     {NeedKey, nil, apierr.APIKeyRequired, "", "", ""},
		"tools by key":                  {NeedUserKey, []string{key, w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"tools by bearer key":           {NeedUserKey, []string{bearer, "Bearer " + w.orgKey}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"tools by an application":       {NeedUserKey, []string{key, w.orgKey, "origin", "app://x"}, ok, w.org, domain.RoleAdmin, domain.CallerUser},
		"tools by cookie":               {NeedUserKey, []string{jar, cookie(w.session)}, apierr.APIKeyRequired, "", "", ""},
		"tools by bearer":               {NeedUserKey, []string{bearer, "Bearer " + w.session}, apierr.APIKeyRequired, "", "", ""},
		"tools, anonymous":              {NeedUserKey, nil, apierr.APIKeyRequired, "", "", ""},
		"demo on tools":                 {NeedUserKey, []string{tenant, domain.DemoTenant}, apierr.DemoRestricted, "", "", ""},
		"run-automation by unknown key": {NeedKey, []string{key, unknownKey}, apierr.Unauthenticated, "", "", ""},
		"run-automation from a page":    {NeedKey, []string{key, w.orgKey, "origin", "https://example.com"}, apierr.ServerToServerOnly, w.org, domain.RoleAdmin, ""},
		"run-automation from a tab":     {NeedKey, []string{key, w.orgKey, "sec-fetch-site", "none"}, apierr.ServerToServerOnly, w.org, domain.RoleAdmin, ""},
		"run-automation, empty origin":  {NeedKey, []string{key, w.orgKey, "origin", ""}, apierr.ServerToServerOnly, w.org, domain.RoleAdmin, ""},
	} {
		got, err := w.Resolve(request(c.headers...), c.need)
		code := ok
		if err != nil {
			code = apierr.CodeFor(err)
		}
		caller := got.Caller
		if code != c.code || caller.OrganizationID != c.org || caller.Role != c.role || code == ok && caller.Kind != c.kind {
			t.Errorf("%s: %+v, %v; want code %q, %q as %q %q", name, caller, err, c.code, c.org, c.kind, c.role)
		}
	}
}

// If a client sends the key of another service, the error describes the format of Parley's keys.
func TestKeysOfOtherServicesAreRecognized(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	const others, ours, bearer, key = "sk-proj-abc", "Parley keys begin with ak_", "authorization", "x-api-key"
	for name, c := range map[string]struct {
		need    Need
		headers []string
		code    apierr.Code
		says    string
	}{
		"as bearer":            {NeedUser, []string{bearer, "Bearer " + others}, apierr.Unauthenticated, "neither a Parley API key, which begins with ak_, nor"},
		"as key":               {NeedUser, []string{key, others}, apierr.Unauthenticated, ours},
		"as bearer, for keys":  {NeedUserKey, []string{bearer, "Bearer " + others}, apierr.APIKeyRequired, ours},
		"as bearer, of system": {NeedKey, []string{bearer, "Bearer " + others}, apierr.APIKeyRequired, ours},
		"as key, for keys":     {NeedUserKey, []string{key, others}, apierr.Unauthenticated, ours},
		"a session, for keys":  {NeedUserKey, []string{bearer, "Bearer " + w.session}, apierr.APIKeyRequired, "in x-api-key or as a bearer token"},
		"nothing, for keys":    {NeedUserKey, nil, apierr.APIKeyRequired, "in x-api-key or as a bearer token"},
		"a key cut short":      {NeedUser, []string{bearer, "Bearer " + w.orgKey[:20]}, apierr.Unauthenticated, "the API key is malformed"},
		"a broken cookie":      {NeedUser, []string{"cookie", CookieName + "=x"}, apierr.Unauthenticated, "the session token is malformed"},
	} {
		_, err := w.Resolve(request(c.headers...), c.need)
		coded, ok := errors.AsType[*apierr.Error](err)
		if !ok || coded.Code != c.code || !strings.Contains(coded.Detail, c.says) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.code, c.says)
		}
	}
}

func TestResolveReturnsTheCredential(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	got, err := w.Resolve(request("cookie", CookieName+"="+w.session), NeedUser)
	if err != nil || got.Via != ViaCookie || got.Token != w.session || got.Caller.UserID != w.user ||
		got.Caller.Credential != "login_x" || len(got.Organizations) != 2 {
		t.Errorf("cookie: %+v, %v", got, err)
	}
	got, err = w.Resolve(request("x-api-key", w.orgKey), NeedUser)
	if err != nil || got.Via != ViaKey || got.Token != "" || got.Caller.UserID != "" || got.Caller.KeyID == "" ||
		got.Caller.Credential != got.Caller.KeyID || got.Caller.Principal() != got.Caller.KeyID {
		t.Errorf("key: %+v, %v", got, err)
	}
}

func TestRevocationTakesEffectWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	clock := time.Now()
	w.now = func() time.Time { return clock }
	resolve := func() error {
		_, err := w.Resolve(request("x-api-key", w.orgKey), NeedUser)
		return err
	}
	for range 100 {
		if err := resolve(); err != nil {
			t.Fatal(err)
		}
	}
	if w.lookup.reads != 1 {
		t.Errorf("%d reads for 100 requests", w.lookup.reads)
	}
	keyID, _ := secrets.APIKeyID(w.orgKey)
	w.lookup.mu.Lock()
	delete(w.lookup.keys, keyID) // simulates a revocation by another ingress
	w.lookup.mu.Unlock()
	clock = clock.Add(5 * time.Second)
	if apierr.CodeFor(resolve()) != apierr.Unauthenticated {
		t.Error("a revoked key still works after 5 s")
	}
}

func TestForgettingTakesEffectImmediately(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	keyID, _ := secrets.APIKeyID(w.orgKey)
	for _, c := range []struct {
		req    *http.Request
		revoke func()
	}{
		{request("x-api-key", w.orgKey), func() { delete(w.lookup.keys, keyID); w.ForgetKey(keyID) }},
		{request("authorization", "Bearer "+w.session), func() { clear(w.lookup.logins); w.ForgetToken(w.session) }},
	} {
		if _, err := w.Resolve(c.req, NeedUser); err != nil {
			t.Error(err)
		}
		c.revoke()
		if _, err := w.Resolve(c.req, NeedUser); apierr.CodeFor(err) != apierr.Unauthenticated {
			t.Errorf("forgotten credential: %v", err)
		}
	}
}

// TestChangesTakeEffectElsewhereWithinFiveSeconds uses two resolvers with the same database, like
// two ingress processes. A change takes effect within 5 s on a resolver that is not notified, and
// immediately on a resolver that forgets the user.
func TestChangesTakeEffectElsewhereWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	clock := time.Now()
	other := New(w.lookup, nil, nil)
	w.now = func() time.Time { return clock }
	other.now = func() time.Time { return clock }
	done := make(chan struct{})
	go func() { defer close(done); other.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	asks := []*http.Request{
		request("x-api-key", w.userKey, "x-organization-id", w.second),
		request("authorization", "Bearer "+w.session, "x-organization-id", w.second),
	}
	want := func(when string, r *Resolver, role domain.Role, code apierr.Code) {
		t.Helper()
		for _, req := range asks {
			ident, err := r.Resolve(req, NeedUser)
			if ident.Caller.Role != role || (err == nil) != (code == "") || err != nil && apierr.CodeFor(err) != code {
				t.Errorf("%s: %q, %v; want %q, %q", when, ident.Caller.Role, err, role, code)
			}
		}
	}
	set := func(standings ...accountdb.Standing) {
		w.lookup.mu.Lock()
		defer w.lookup.mu.Unlock()
		for _, all := range []map[string]*accountdb.Credential{w.lookup.keys, w.lookup.logins} {
			for name, cred := range all {
				if changed := *cred; cred.UserID == w.user {
					changed.Memberships = standings
					all[name] = &changed
				}
			}
		}
	}
	want("before", w.Resolver, domain.RoleMember, "")
	want("before, elsewhere", other, domain.RoleMember, "")
	set(accountdb.Standing{OrganizationID: w.first, Role: domain.RoleOwner}, accountdb.Standing{OrganizationID: w.second, Role: domain.RoleAdmin})
	w.ForgetUser(w.user)
	want("changed", w.Resolver, domain.RoleAdmin, "")
	clock = clock.Add(5 * time.Second)
	want("changed, elsewhere", other, domain.RoleAdmin, "")
	set(accountdb.Standing{OrganizationID: w.first, Role: domain.RoleOwner})
	w.ForgetUser(w.user)
	want("removed", w.Resolver, "", apierr.PermissionDenied)
	clock = clock.Add(5 * time.Second)
	want("removed, elsewhere", other, "", apierr.PermissionDenied)
}

func TestPerson(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	stale := secrets.NewSessionToken()
	for name, c := range map[string]struct {
		headers []string
		user    string
		code    apierr.Code
	}{
		"nothing":          {nil, "", ""},
		"cookie":           {[]string{"cookie", CookieName + "=" + w.session}, w.user, ""},
		"bearer":           {[]string{"authorization", "Bearer " + w.session}, w.user, ""},
		"stale cookie":     {[]string{"cookie", CookieName + "=" + stale}, "", ""},
		"stale bearer":     {[]string{"authorization", "Bearer " + stale}, "", apierr.Unauthenticated},
		"key":              {[]string{"x-api-key", w.orgKey}, "", ""},
		"unknown key":      {[]string{"x-api-key", secrets.NewAPIKey().Key}, "", apierr.Unauthenticated},
		"key and bearer":   {[]string{"x-api-key", w.orgKey, "authorization", "Bearer " + w.session}, "", apierr.ConflictingCredentials},
		"two sessions":     {[]string{"cookie", CookieName + "=" + w.session + "; " + CookieName + "=x"}, "", apierr.InvalidRequest},
		"stale, wrong key": {[]string{"cookie", CookieName + "=" + stale, "x-api-key", secrets.NewAPIKey().Key}, "", apierr.Unauthenticated},
	} {
		ident, err := w.Person(request(c.headers...))
		if ident.Caller.UserID != c.user || (err == nil) != (c.code == "") || err != nil && apierr.CodeFor(err) != c.code {
			t.Errorf("%s: %+v, %v; want %q, %q", name, ident.Caller, err, c.user, c.code)
		}
	}
}

func TestAnUnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.lookup.err = context.DeadlineExceeded
	var coded *apierr.Error
	_, err := w.Resolve(request("x-api-key", w.orgKey), NeedUser)
	if !errors.As(err, &coded) || coded.Code != apierr.Unavailable || coded.RetryAfter < time.Second {
		t.Errorf("got %v", err)
	}
}

func TestUseOfKeysIsRecorded(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	clock := time.Now()
	w.now = func() time.Time { return clock }
	keyID, _ := secrets.APIKeyID(w.orgKey)
	use := func() map[string]time.Time {
		if _, err := w.Resolve(request("x-api-key", w.orgKey), NeedUser); err != nil {
			t.Fatal(err)
		}
		w.touches.mu.Lock()
		defer w.touches.mu.Unlock()
		used := w.touches.pending
		w.touches.pending = map[string]time.Time{}
		return used
	}
	if used := use(); !used[keyID].Equal(clock) {
		t.Errorf("first use recorded as %v", used)
	}
	if used := use(); len(used) != 0 {
		t.Errorf("second use within a minute recorded as %v", used)
	}
	clock = clock.Add(time.Minute)
	if used := use(); len(used) != 1 {
		t.Errorf("use a minute later recorded as %v", used)
	}
	w.touches.note("key_x", clock)
	w.touches.flush(t.Context())
	w.lookup.mu.Lock()
	defer w.lookup.mu.Unlock()
	if !w.lookup.touched["key_x"].Equal(clock) {
		t.Errorf("written %v", w.lookup.touched)
	}
}

// A read that began before a change must not be cached after the change, because the read may have
// missed the change.
func TestCacheIgnoresAReadDuringAChange(t *testing.T) {
	t.Parallel()
	started, changed := make(chan struct{}), make(chan struct{})
	version, reads := "old", 0
	c := newCache(time.Now, remember, func(_ context.Context, keys []string) (map[string]*string, error) {
		reads++
		out := map[string]*string{keys[0]: new(version)}
		if reads == 1 {
			close(started)
			<-changed
		}
		return out, nil
	}, func(s string) string { return s })
	go c.group.Run(t.Context())

	got := make(chan string)
	go func() {
		e, err := c.get(t.Context(), "key", time.Now())
		if err != nil {
			t.Error(err)
			got <- ""
			return
		}
		got <- *e.found
	}()
	<-started
	version = "new"
	c.forgetWhere(func(*string) bool { return true })
	close(changed)
	<-got // either version is right for a request that began before the change

	if e, err := c.get(t.Context(), "key", time.Now()); err != nil || *e.found != "new" {
		t.Errorf("after the change: %+v, %v", e, err)
	}
}

func TestCacheStaysSmall(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	c := newCache(func() time.Time { return clock }, remember, (&fakeLookup{}).KeyCredentials, func(s string) string { return s })
	for n := range cacheSize + 50 {
		c.entries[id.New(id.Key)] = entry[accountdb.Credential]{until: clock.Add(time.Duration(n) * time.Nanosecond)}
	}
	c.put([]string{"key_x"}, []entry[accountdb.Credential]{{until: clock.Add(time.Minute)}}, 0)
	if n := len(c.entries); n > cacheSize {
		t.Errorf("%d entries", n)
	}
	if _, ok := c.entries["key_x"]; !ok {
		t.Error("the newest entry was dropped")
	}
}

func BenchmarkResolve(b *testing.B) {
	lookup := &fakeLookup{keys: map[string]*accountdb.Credential{}}
	k := secrets.NewAPIKey()
	lookup.keys[k.ID] = &accountdb.Credential{KeyID: k.ID, Label: k.ID, OrganizationID: "org_x", SecretHash: k.Hash}
	r := New(lookup, nil, nil)
	go r.Run(b.Context())
	req := request("x-api-key", k.Key)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Resolve(req, NeedKey); err != nil {
			b.Fatal(err)
		}
	}
}
