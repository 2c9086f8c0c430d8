// Package sealedtest creates organizations with a sealed value of every kind, and
// opens these values.
package sealedtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/notificationdb"
	"parley/shared/store/queuedb"
	"parley/shared/store/sealdb"
)

// Keys for SECRETS_KEY: the old one, and the new one that replaces it.
var (
	KeyA = strings.Repeat("0a", 32)
	KeyB = strings.Repeat("0b", 32)
)

// Plain texts of the organization's secrets.
const (
	Header   = "Bearer one"
	Signing  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	Server   = "Bearer three"
	Identity = "the site's secret"
	Hook     = "the hook's secret"
	Endpoint = "whsec_plJ3nmyCDGBKInavdOK15jsl"
	Body     = `{"a":1}`
)

// contentSize is the size, in bytes, of content that takes two chunks. The last piece of the second
// chunk is not full.
const contentSize = 1<<20 + 200_000

// SealedOrganization is an organization with a sealed value of every kind.
type SealedOrganization struct {
	DSN          string
	Organization string
	Agent        string
	HookID       string
	EndpointID   string
	Document     string
	Content      []byte
}

// Box parses a setting of SECRETS_KEY.
func Box(tb testing.TB, setting string) *secrets.Box {
	tb.Helper()
	box, err := secrets.NewBox(setting)
	must(tb, err)
	return box
}

// Open opens a database in the same way as a service that has this SECRETS_KEY and encrypts
// contents.
func Open(tb testing.TB, dsn, setting string) *store.Store {
	tb.Helper()
	s, err := store.Open(dsn, 4)
	must(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	s.Seals.SealContents(Box(tb, setting))
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Tools returns tools with secrets that are sealed for an agent.
func Tools(box *secrets.Box, org, agent string) domain.Tools {
	location := secrets.AgentHeaders(org, agent)
	return domain.Tools{
		HTTPRequest: &domain.HTTPRequestTool{Enabled: true, Endpoints: []domain.Endpoint{{
			Name: "pay", Method: "POST", URL: "https://pay.example.com", SideEffect: domain.SideEffectIdempotent,
			Headers: map[string]string{"Authorization": box.Seal(Header, location)}, SigningSecret: box.Seal(Signing, location),
		}}},
		MCP: &domain.MCPTool{Enabled: true, Servers: []domain.MCPServer{{
			Name: "wiki", URL: "https://wiki.example.com", Headers: map[string]string{"Authorization": box.Seal(Server, location)},
		}}},
	}
}

// New creates an organization whose values are sealed with the first key of a setting. Its
// agent has two versions.
func New(tb testing.TB, dsn, setting, email string) *SealedOrganization {
	tb.Helper()
	s, box, ctx := Open(tb, dsn, setting), Box(tb, setting), tb.Context()
	login := accountdb.NewLogin{TokenHash: secrets.Hash(secrets.NewSessionToken()), ExpiresAt: time.Now().Add(time.Hour)}
	account, err := s.Accounts.SignUp(ctx, accountdb.NewUser{Email: email, Name: "Ada", PasswordHash: "hash"}, login)
	must(tb, err)
	h := &SealedOrganization{
		DSN: dsn, Organization: account.Organization.ID, Agent: id.New(id.Agent), HookID: id.New(id.Hook), EndpointID: id.New(id.Endpoint),
	}
	org := h.Organization
	_, err = s.Agents.CreateAgent(ctx, org, domain.Agent{
		ID: h.Agent, Name: "a", SystemPrompt: `says "v1.0a0a0a0a.x"`, AllowedCallers: []domain.CallerKind{domain.CallerSystem},
		Tools:  Tools(box, org, h.Agent),
		Widget: domain.Widget{Enabled: true, IdentitySecret: box.Seal(Identity, secrets.WidgetIdentity(org, h.Agent))},
	})

	must(tb, err)
	_, err = s.Agents.UpdateAgent(ctx, org, h.Agent, 0, func(a *domain.Agent) error {
		a.Name = "b"
		return nil
	})
	must(tb, err)
	k := secrets.NewAPIKey()
	admin := accountdb.Actor{OrganizationID: org, UserID: account.User.ID, Role: domain.RoleAdmin}
	key, err := s.Organizations.CreateKey(ctx, admin, accountdb.NewKey{
		ID: k.ID, Scope: domain.KeyScopeOrganization, Name: "k", SecretHash: k.Hash, LastFour: k.LastFour,
	})
	must(tb, err)
	_, err = s.Hooks.CreateHook(ctx, hookdb.NewHook{
		Hook: domain.Hook{
			ID: h.HookID, Name: "pushes", AgentID: h.Agent, KeyID: key.ID, Source: domain.HookGitHub, MessageTemplate: "{{ref}}", Enabled: true,
		},
		OrganizationID: org, SealedSecret: box.Seal(Hook, secrets.Hook(org, h.HookID)),
	})

	must(tb, err)
	_, err = s.Notifications.CreateEndpoint(ctx, notificationdb.NewEndpoint{
		OrganizationID: org, ID: h.EndpointID, URL: "https://example.com", Events: domain.NotificationEvents, Enabled: true,
		SealedSecret: box.Seal(Endpoint, secrets.NotificationEndpoint(org, h.EndpointID)),
	}, notificationdb.MaxEndpoints)
	must(tb, err)
	h.deliver(tb, s, "one")
	h.Content = bytes.Repeat([]byte(org), contentSize/len(org))
	up, err := s.Blobs.Upload(ctx, org, bytes.NewReader(h.Content), 1<<30)
	must(tb, err)
	docs, err := s.Knowledge.AddDocuments(ctx, org, []knowledgedb.NewDocument{
		{ID: id.New(id.Document), CreatedBy: account.User.ID, Name: "x.txt", Content: &up},
	}, knowledgedb.DocumentLimits{})
	must(tb, err)
	h.Document = docs[0].Document.ID
	return h
}

func (h *SealedOrganization) deliver(tb testing.TB, s *store.Store, deliveryID string) {
	tb.Helper()
	out, err := s.Queue.AcceptDeliveries(tb.Context(), []queuedb.NewDelivery{{
		HookID: h.HookID, OrganizationID: h.Organization, ID: deliveryID, Event: "push", ContentType: "application/json",
		Status: domain.DeliveryFiltered, Bytes: int64(len(Body)), Body: []byte(Body),
	}})
	must(tb, err)
	must(tb, out[0].Err)
}

// Deliver logs n more deliveries to the hook. Their bodies are sealed with the first key of a
// setting.
func (h *SealedOrganization) Deliver(tb testing.TB, setting string, n int) {
	tb.Helper()
	s := Open(tb, h.DSN, setting)
	for i := range n {
		h.deliver(tb, s, fmt.Sprintf("more-%d", i))
	}
}

// Unopened opens every value in the same way as a service with this SECRETS_KEY. It returns the
// errors by kind.
func (h *SealedOrganization) Unopened(tb testing.TB, setting string) map[sealdb.Kind]error {
	tb.Helper()
	s, box, ctx, org := Open(tb, h.DSN, setting), Box(tb, setting), tb.Context(), h.Organization
	failed := map[sealdb.Kind]error{}
	note := func(kind sealdb.Kind, err error) {
		if err != nil {
			failed[kind] = errors.Join(failed[kind], err)
		}
	}

	text := func(kind sealdb.Kind, sealed, location, want string) {
		got, err := box.Open(sealed, location)
		if err == nil && got != want {
			err = fmt.Errorf("opened %q, not %q", got, want)
		}
		note(kind, err)
	}

	tools := func(kind sealdb.Kind, t domain.Tools) {
		location := secrets.AgentHeaders(org, h.Agent)
		text(kind, t.HTTPRequest.Endpoints[0].Headers["Authorization"], location, Header)
		text(kind, t.HTTPRequest.Endpoints[0].SigningSecret, location, Signing)
		text(kind, t.MCP.Servers[0].Headers["Authorization"], location, Server)
	}

	agent, err := s.Agents.Agent(ctx, org, h.Agent)
	must(tb, err)
	tools(sealdb.KindTool, agent.Tools)
	text(sealdb.KindWidget, agent.Widget.IdentitySecret, secrets.WidgetIdentity(org, h.Agent), Identity)
	for version := range agent.Version {
		config, err := s.Executions.Config(ctx, org, h.Agent, version+1)
		must(tb, err)
		tools(sealdb.KindToolVersion, config.Tools)
	}

	hook, err := s.Hooks.ReceivingHook(ctx, h.HookID)
	must(tb, err)
	text(sealdb.KindHook, hook.SealedSecrets[0], secrets.Hook(org, h.HookID), Hook)
	text(sealdb.KindNotification, h.endpointSecret(tb), secrets.NotificationEndpoint(org, h.EndpointID), Endpoint)
	body, _, err := s.Hooks.DeliveryBody(ctx, org, h.HookID, "one")
	if err == nil && string(body) != Body {
		err = fmt.Errorf("opened %q", body)
	}

	note(sealdb.KindDelivery, err)
	note(sealdb.KindContent, h.read(ctx, s))
	return failed
}

func (h *SealedOrganization) read(ctx context.Context, s *store.Store) error {
	_, r, err := s.Knowledge.OpenDocument(ctx, h.Organization, h.Document)
	if err != nil {
		return fmt.Errorf("opening document: %w", err)
	}
	defer func() { _ = r.Close() }() // nothing was written
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, h.Content) {
		err = errors.New("the document has different bytes")
	}
	return err
}

// endpointSecret reads the stored secret of the endpoint, which the service reads only to
// send a notification.
func (h *SealedOrganization) endpointSecret(tb testing.TB) (sealed string) {
	tb.Helper()
	db, err := sql.Open("postgres", h.DSN)
	must(tb, err)
	defer func() { _ = db.Close() }() // it only reads
	row := db.QueryRowContext(tb.Context(), `SELECT secret FROM notification_endpoints WHERE id = $1`, h.EndpointID)
	must(tb, row.Scan(&sealed))
	return sealed
}
