package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/agentdb"
	"parley/shared/store/sealdb"
)

const (
	// WidgetTokenLife is the lifetime of a widget token.
	WidgetTokenLife = 10 * time.Minute

	unlisted = time.Second // how long the absence of a widget or origin is cached; short, because people test new widgets immediately
)

// WidgetLookup reads the widgets of agents of any organization. The store implements it. The maps
// contain only values that exist.
type WidgetLookup interface {
	Widgets(ctx context.Context, agentIDs []string) (map[string]*agentdb.Widget, error)
	WidgetOrigins(ctx context.Context, origins []string) (map[string]*agentdb.Origin, error)
}

// Widgets decides which pages may embed which agents, and creates the tokens of widget visitors. It
// works only while the Run method of the Resolver is running. It is safe for concurrent use.
type Widgets struct {
	box     *secrets.Box
	secrets Opener
	now     func() time.Time
	agents  *cache[string, agentdb.Widget] // widgets, by agent id
	origins *cache[string, agentdb.Origin] // origins that at least one widget allows
}

// Opener decrypts stored secrets. It reports a secret that no key can decrypt.
type Opener interface {
	OpenText(kind sealdb.Kind, org, id, sealed string) (string, error)
}

// NewWidgets returns Widgets that read from l and encrypt tokens with box. opener decrypts the
// identity secrets of widgets.
func NewWidgets(l WidgetLookup, box *secrets.Box, opener Opener) *Widgets {
	w := &Widgets{box: box, secrets: opener, now: time.Now}
	now := func() time.Time { return w.now() }
	itself := func(name string) string { return name }
	w.agents = newCache(now, unlisted, l.Widgets, itself)
	w.origins = newCache(now, unlisted, l.WidgetOrigins, itself)
	return w
}

// run reads widgets and origins until ctx ends.
func (w *Widgets) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { w.agents.group.Run(ctx) })
	wg.Go(func() { w.origins.group.Run(ctx) })
	wg.Wait()
}

// Embedded returns the widget of an agent if pages of the origin may embed it, and nil otherwise.
// The result is shared and must not be modified. Errors have a code; see package apierr.
func (w *Widgets) Embedded(ctx context.Context, agentID, origin string) (*agentdb.Widget, error) {
	found, err := w.embedded(ctx, agentID, origin)
	return found.found, err
}

// embedded is like Embedded, and also returns the time until which the result is cached. The field
// found is nil if pages of the origin may not embed the widget.
func (w *Widgets) embedded(ctx context.Context, agentID, origin string) (entry[agentdb.Widget], error) {
	// The cached widget contains the list of its origins, so no further lookup is necessary.
	found, err := w.agents.get(ctx, agentID, w.now())
	if err == nil && found.found != nil && !slices.Contains(found.found.Origins, origin) {
		found.found = nil
	}
	return found, err
}

// Listed reports whether pages of the origin may embed any widget. Package httpapi/widget uses it
// for CORS.
func (w *Widgets) Listed(ctx context.Context, origin string) (bool, error) {
	found, err := w.origins.get(ctx, origin, w.now())
	return found.found != nil, err
}

// Forget drops an agent's widget and the given origins from the caches, so that a change takes
// effect immediately in this process. Other processes notice the change when their entries expire.
func (w *Widgets) Forget(agentID string, origins ...string) {
	w.agents.forget(agentID)
	for _, origin := range origins {
		w.origins.forget(origin)
	}
}

// pass is the content of a widget token. The agent's organization is not part of it, but is looked
// up at each use.
type pass struct {
	Agent   string `json:"a"`
	Origin  string `json:"o"`
	Visitor string `json:"v"`
	Expires int64  `json:"x"` // Unix time
}

// NewToken returns a widget token and its expiry. The token is stored nowhere, so it cannot be
// revoked separately. The caller has checked the origin.
func (w *Widgets) NewToken(agentID, origin, visitorID string) (token string, expires time.Time) {
	expires = w.now().Add(WidgetTokenLife).Truncate(time.Second)
	return w.box.SealWidgetToken(rendered(pass{agentID, origin, visitorID, expires.Unix()})), expires
}

// open decrypts a widget token, even if the token has expired. An error means that the token is
// malformed or was encrypted with another key.
func (w *Widgets) open(token string) (p pass, err error) {
	plain, err := w.box.OpenWidgetToken(token)
	if err != nil {
		return pass{}, fmt.Errorf("decrypting widget token: %w", err)
	}
	if err := json.Unmarshal(plain, &p); err != nil {
		return pass{}, fmt.Errorf("reading widget token: %w", err)
	}
	return p, nil
}

// visitorName identifies a visitor. The visitor's browser stores it in encrypted form. If the
// server of the website has named the visitor, the name contains the server's signature, which must
// be valid.
type visitorName struct {
	ID        string `json:"i"`
	Signature string `json:"s,omitempty"`
}

// Signed is the name that the server of a website gave to a visitor, and the server's signature.
// Signature is the hexadecimal HMAC-SHA256 of "<agent id>\n<ID>" with the agent's identity secret
// as the key.
type Signed struct{ ID, Signature string }

// NewVisitor returns the id of a new anonymous visitor, and the encrypted name for the visitor's
// browser to store.
func (w *Widgets) NewVisitor(of *agentdb.Widget) (visitorID, name string) {
	visitorID = domain.VisitorAnonymous + strings.ToLower(rand.Text())
	return visitorID, w.seal(of, visitorName{ID: visitorID})
}

// Returning decrypts a visitor's name that a browser has stored. ok is false if the name is
// malformed, no longer valid, or for another agent. fresh is the encrypted name for the browser to
// store from now on; it differs from name if name was encrypted with an older key. Returning
// returns an error if the agent's identity secret cannot be decrypted.
func (w *Widgets) Returning(of *agentdb.Widget, name string) (visitorID, fresh string, ok bool, err error) {
	v, ok := w.readName(of, name)
	switch {
	case !ok:
		return "", "", false, nil
	case v.Signature == "":
		visitorID, ok = v.ID, strings.HasPrefix(v.ID, domain.VisitorAnonymous)
	default:
		visitorID, _, err = w.Identify(of, Signed(v))
		if errors.Is(err, sealdb.ErrUnopened) {
			return "", "", false, err
		}
		ok = err == nil
	}

	if fresh = name; !w.box.HasCurrentKey(name) {
		fresh = w.seal(of, v)
	}
	return visitorID, fresh, ok, nil
}

// readName decrypts a name that was created for this widget. It returns false for any other name.
func (w *Widgets) readName(of *agentdb.Widget, name string) (v visitorName, ok bool) {
	plain, err := w.box.OpenVisitorToken(name, visitorContext(of))
	if err != nil || json.Unmarshal(plain, &v) != nil {
		return visitorName{}, false
	}
	return v, true
}

// Identify checks the signature of a visitor's name. It returns the id of the visitor, and the
// encrypted name for the browser to store. The error is permission_denied for a wrong signature,
// and sealdb.ErrUnopened if the agent's secret cannot be decrypted. The comparison takes constant
// time.
func (w *Widgets) Identify(of *agentdb.Widget, who Signed) (visitorID, name string, err error) {
	wrong := apierr.New(apierr.PermissionDenied, "the visitor's signature is not valid for this agent")

	// If the agent has no identity secret, it accepts no signed names.
	given, err := hex.DecodeString(who.Signature)
	if err != nil || of.Secret == "" {
		return "", "", wrong
	}

	secret, err := w.secrets.OpenText(sealdb.KindWidget, of.OrganizationID, of.AgentID, of.Secret)
	if err != nil {
		return "", "", fmt.Errorf("decrypting identity secret: %w", err)
	}

	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(of.AgentID + "\n" + who.ID)) // writing to a hash never fails
	if !hmac.Equal(mac.Sum(nil), given) {
		return "", "", wrong
	}
	return domain.VisitorKnown + who.ID, w.seal(of, visitorName(who)), nil
}

// seal encrypts a visitor's name for the browser to store. Only the widget of the same agent can
// decrypt it.
func (w *Widgets) seal(of *agentdb.Widget, v visitorName) string {
	return w.box.SealVisitorToken(rendered(v), visitorContext(of))
}

// visitorContext returns the encryption context of visitors' names, which contains the organization
// and the agent.
func visitorContext(of *agentdb.Widget) string { return of.OrganizationID + "|" + of.AgentID }

// rendered returns the JSON form of a token's content.
func rendered(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: strings and numbers always have a JSON form
	}
	return out
}
