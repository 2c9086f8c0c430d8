package store_test

import (
	"database/sql"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/hookdb"
)

const actsForCredential = "credential"

// credentialCall calls a function that acts for a credential.
type credentialCall struct {
	call       string // the call, for use in FROM; $1 is the credential, which is also the transaction's user
	credential string // the key of the entry in holder that is the call's argument: an id or a hash
	changes    string // a query over all organizations that returns the rows changed; "" if the function returns rows
}

var credentialCalls = map[string]credentialCall{
	"parley_key_credentials":   {call: `parley_key_credentials(ARRAY[$1::text])`, credential: "key"},
	"parley_login_credentials": {call: `parley_login_credentials(ARRAY[decode($1, 'hex')])`, credential: "login hash"},
	"parley_touch_keys": {
		call: `parley_touch_keys(ARRAY[$1::text], ARRAY[clock_timestamp()])`, credential: "key",
		changes: `SELECT coalesce(string_agg(id, ' '), '') FROM api_keys WHERE last_used_at IS NOT NULL`,
	},
	"parley_memberships":     {call: `parley_memberships($1)`, credential: "user"},
	"parley_holdings":        {call: `parley_holdings($1)`, credential: "user"},
	"parley_own_invitations": {call: `parley_own_invitations() WHERE $1::text <> ''`, credential: "user"},
	"parley_invitation":      {call: `parley_invitation(decode($1, 'hex'))`, credential: "link hash"},
	"parley_widgets":         {call: `parley_widgets(ARRAY[$1::text])`, credential: "agent"},
	"parley_widget_origins":  {call: `parley_widget_origins(ARRAY[$1::text]) AS origin`, credential: "origin"},
	"receiving_hook":         {call: `receiving_hook($1, interval '1 day')`, credential: "hook"},
}

// holder is an organization with all the data that a credential gives access to: ids, hashes and
// texts, all different from those of other organizations.
type holder map[string]string

// newHolder creates an organization. Its owner has a proven email address and is invited to the
// organization host.
func newHolder(t *testing.T, s *store.Store, raw *sql.DB, name string, host accountdb.Account) holder {
	t.Helper()
	email := name + "@example.com"
	account, login := signUp(t, s, email)
	org, user := account.Organization.ID, account.User.ID
	who := accountdb.Actor{OrganizationID: org, UserID: user, Role: domain.RoleOwner}
	agent, err := s.Agents.CreateAgent(t.Context(), org, domain.Agent{
		ID: id.New(id.Agent), Name: name + "'s agent", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerUser, domain.CallerSystem},
		Widget: domain.Widget{Enabled: true, AllowedOrigins: []string{"https://" + name + ".example.com"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, _ := newKey(t, s, domain.KeyScopeOrganization, org, user)
	hook, err := s.Hooks.CreateHook(t.Context(), hookdb.NewHook{
		Hook: domain.Hook{
			ID: id.New(id.Hook), Name: name + "'s hook", AgentID: agent.ID, KeyID: key.ID, Source: domain.HookGitHub, MessageTemplate: "m", Enabled: true,
		},
		OrganizationID: org, SealedSecret: "sealed for " + name,
	})
	if err != nil {
		t.Fatal(err)
	}
	invite := func(who accountdb.Actor, email, token string) string {
		link := accountdb.NewInvitation{TokenHash: secrets.Hash(token), ExpiresAt: time.Now().Add(time.Hour)}
		if _, err := s.Organizations.AddMember(t.Context(), who, email, domain.RoleMember, link); err != nil {
			t.Fatal(err)
		}
		return texts(t, raw, `SELECT id FROM invitations WHERE token_hash = $1`, secrets.Hash(token))[0]
	}
	guest := invite(who, "guest@"+name+".example.com", name+"'s guest")
	own := invite(accountdb.Actor{OrganizationID: host.Organization.ID, UserID: host.User.ID, Role: domain.RoleOwner}, email, name)
	if _, err := raw.ExecContext(t.Context(), `UPDATE users SET email_proven_at = clock_timestamp() WHERE id = $1`, user); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), `INSERT INTO hook_senders (hook_id, client, org_id) VALUES ($1, $2, $3)`,
		hook.ID, name+"'s address", org); err != nil {
		t.Fatal(err)
	}
	return holder{
		"organization": org, "user": user, "email": email, "key": key.ID, "agent": agent.ID, "hook": hook.ID, "guest's invitation": guest,
		"own invitation": own, "origin": "https://" + name + ".example.com", "login hash": hex.EncodeToString(login.TokenHash),
		"link hash": hex.EncodeToString(secrets.Hash(name + "'s guest")),
		"login":     texts(t, raw, `SELECT id FROM login_sessions WHERE user_id = $1`, user)[0],
		"names":     name + "'s", "sealed secret": "sealed for " + name,
	}
}

// A function that acts for a credential returns only data that the credential gives access to.
// Regardless of the organizations for which the transaction acts, the function returns no data of
// other organizations, and no rows for another id.
func TestCredentialDefinersGiveNothingOfOthers(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	host, _ := signUp(t, s, "host@example.com")
	ada, bob := newHolder(t, s, raw, "ada", host), newHolder(t, s, raw, "bob", host)
	for name, listed := range definersOnThePage(t) {
		c, known := credentialCalls[name]
		if known != (listed.actsFor == actsForCredential) {
			t.Errorf("%s acts for %s; this test calls it: %v", name, listed.actsFor, known)
		}
		if !known {
			continue
		}
		for _, acting := range []string{"", ada["organization"], bob["organization"], ada["organization"] + "," + bob["organization"]} {
			given := c.result(t, s, raw, acting, ada[c.credential])
			if given == "" {
				t.Errorf("%s returns no rows for its credential", name)
			}
			for what, mark := range bob {
				if strings.Contains(given, mark) {
					t.Errorf("%s gave the %s of another organization to a transaction that acts for %q: %s", name, what, acting, given)
				}
			}
			for _, sent := range slices.Concat(
				[]string{"", "%", "{}", "00"}, without(ada, c.credential), without(bob, c.credential), []string{bob[c.credential] + " ", bob[c.credential][1:]},
			) {
				if given := c.result(t, s, raw, acting, sent); given != "" {
					t.Errorf("%s(%q) gave a transaction that acts for %q: %s", name, sent, acting, given)
				}
			}
		}
	}
}

// without returns a holder's ids, hashes and texts, except one.
func without(of holder, name string) []string {
	rest := maps.Clone(of)
	delete(rest, name)
	return slices.Collect(maps.Values(rest))
}

// result returns the function's result, or the ids of the rows that it changes, in a transaction
// that the service runs for the given organizations.
func (c credentialCall) result(t *testing.T, s *store.Store, raw *sql.DB, acting, credential string) (given string) {
	t.Helper()
	if strings.Contains(c.call, "decode(") {
		if _, err := hex.DecodeString(credential); err != nil {
			credential = hex.EncodeToString([]byte(credential))
		}
	}
	tx, err := s.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // has no effect after the commit
	if _, err := tx.ExecContext(t.Context(), `SELECT set_config('parley.organizations', $1, true), set_config('parley.user', $2, true)`, acting, credential); err != nil {
		t.Fatal(err)
	}
	query := `SELECT coalesce(string_agg(given::text, ' '), '') FROM (SELECT * FROM ` + c.call + `) given` //nolint:unqueryvet // each has its own columns
	if err := tx.QueryRowContext(t.Context(), query, credential).Scan(&given); err != nil {
		t.Fatalf("%s: %v", c.call, err)
	}
	if c.changes == "" {
		return given
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	given = texts(t, raw, c.changes)[0]
	if _, err := raw.ExecContext(t.Context(), `UPDATE api_keys SET last_used_at = NULL`); err != nil {
		t.Fatal(err)
	}
	return given
}
