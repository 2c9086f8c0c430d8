package signed_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/secrets"
	"parley/workers/internal/signed"
	"parley/workers/internal/signed/signedtest"
)

var errBody = errors.New("not a request")

// start starts a server. It returns the server's bus, and a pointer to the number of requests that
// the server has refused.
func start(t *testing.T) (b *signedtest.Bus, refused *int) {
	t.Helper()
	b, refused = signedtest.NewBus(), new(int)
	s := &signed.Server[contract.SearchClaims, string]{
		Kind: contract.KindSearch, Slots: 1, Queue: 1, Bus: b, Verifier: signedtest.Signer(t), Log: zerolog.Nop(), Grace: 3 * time.Second,
		Refused: func() { *refused++ },
		Read: func(_ contract.SearchClaims, body []byte) (string, error) {
			if string(body) == "bad" {
				return "", errBody
			}
			return string(body), nil
		},
		Handle: func(ctx context.Context, c contract.SearchClaims, request string) []byte {
			left := "no deadline"
			if until, ok := ctx.Deadline(); ok {
				left = until.Sub(c.Expires).String()
			}
			return []byte(c.OrganizationID + " " + request + " " + left)
		},
	}
	b.Start(t, s.Run)
	return b, refused
}

// Claims are accepted only if a process of this service has signed them for this body and this kind
// of request.
func TestClaims(t *testing.T) {
	t.Parallel()
	b, refused := start(t)
	own := signedtest.Signer(t)
	foreign, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	good := contract.SearchClaims{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: time.Now().Add(time.Minute)}
	late, other, unbound := good, good, good
	late.Expires, other.Kind, unbound.OrganizationID = time.Now().Add(-6*time.Second), contract.ToolKnowledge, ""
	raw, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := signedtest.Message(t, good, "a")
	changed.Body = []byte("b")

	refusals := map[string]bus.ToolMessage{
		"expired": signedtest.Message(t, late, "a"), "another kind": signedtest.Message(t, other, "a"), "no organization": signedtest.Message(t, unbound, "a"),
		"another body": changed, "another key": {Capability: foreign.Sign(raw, []byte("a")), Body: []byte("a")}, "a body that Read rejects": signedtest.Message(t, good, "bad"),
		"unknown claims":   signedtest.Message(t, map[string]any{"org": "org_1", "kind": contract.KindSearch, "expires": good.Expires, "more": 1}, "a"),
		"a tool call":      signedtest.Message(t, contract.Capability{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: good.Expires}, "a"),
		"a check":          signedtest.Message(t, contract.CheckClaims{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: good.Expires}, "a"),
		"no claims":        signedtest.Message(t, "x", "a"),
		"more than claims": {Capability: own.Sign(append(raw, "{}"...), []byte("a")), Body: []byte("a")},
		"unsigned":         {Capability: "x.y", Body: []byte("a")}, "nothing signed": {Body: []byte("a")},
	}
	for name, m := range refusals {
		if owner, ok := b.Owner(m); ok {
			t.Errorf("%s: accepted for %s", name, owner)
		}
		if reply, ok := b.Handle(t.Context(), m); ok {
			t.Errorf("%s: %s", name, reply)
		}
	}
	if *refused != 2*len(refusals) {
		t.Errorf("%d refused, want %d", *refused, 2*len(refusals))
	}

	late.Expires = time.Now().Add(-2 * time.Second) // the clocks of two hosts may differ by this time
	for name, claims := range map[string]contract.SearchClaims{"good": good, "two seconds late": late} {
		m := signedtest.Message(t, claims, "a")
		if owner, ok := b.Owner(m); owner != "org_1" || !ok {
			t.Errorf("%s: the owner is %q, %v", name, owner, ok)
		}
		if reply, ok := b.Handle(t.Context(), m); string(reply) != "org_1 a 3s" || !ok {
			t.Errorf("%s: %s, %v", name, reply, ok)
		}
	}
}

// A request is not executed if its claims expire while it waits for a slot.
func TestClaimsExpireWhileARequestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t)
		claims := contract.SearchClaims{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: time.Now().Add(time.Second)}
		m := signedtest.Message(t, claims, "a")
		if _, ok := b.Owner(m); !ok {
			t.Fatal("refused")
		}
		<-time.After(time.Second + contract.ClockLeeway)
		if reply, ok := b.Handle(t.Context(), m); ok {
			t.Errorf("expired: %s", reply)
		}
	})
}
