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
)

// served is a bus that passes requests to a server.
type served struct {
	owner  func(bus.ToolMessage) (string, bool)
	handle func(context.Context, bus.ToolMessage) ([]byte, bool)
	ready  chan struct{}
}

func (s *served) ServeTool(
	_ string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
) (func(context.Context), error) {
	s.owner, s.handle = cfg.Owner, handle
	close(s.ready)
	return func(context.Context) {}, nil
}

func signer(t *testing.T, key string) *secrets.Signer {
	t.Helper()
	s, err := secrets.NewSigner(strings.Repeat(key, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// message returns a request that the signer has signed.
func message(t *testing.T, s *secrets.Signer, claims any, body string) bus.ToolMessage {
	t.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return bus.ToolMessage{Capability: s.Sign(raw, []byte(body)), Body: []byte(body)}
}

var errBody = errors.New("not a request")

// start starts a server. It returns the server's bus, and a pointer to the number of requests that
// the server has refused.
func start(t *testing.T) (b *served, refused *int) {
	t.Helper()
	b, refused = &served{ready: make(chan struct{})}, new(int)
	s := &signed.Server[contract.SearchClaims, string]{
		Kind: contract.KindSearch, Slots: 1, Queue: 1, Bus: b, Verifier: signer(t, "6b"), Log: zerolog.Nop(), Grace: 3 * time.Second,
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
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-b.ready
	return b, refused
}

// Claims are accepted only if a process of this service has signed them for this body and this kind
// of request.
func TestClaims(t *testing.T) {
	t.Parallel()
	b, refused := start(t)
	own := signer(t, "6b")
	good := contract.SearchClaims{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: time.Now().Add(time.Minute)}
	late, other, unbound := good, good, good
	late.Expires, other.Kind, unbound.OrganizationID = time.Now().Add(-6*time.Second), contract.ToolKnowledge, ""
	raw, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := message(t, own, good, "a")
	changed.Body = []byte("b")

	refusals := map[string]bus.ToolMessage{
		"expired": message(t, own, late, "a"), "another kind": message(t, own, other, "a"), "no organization": message(t, own, unbound, "a"),
		"another body": changed, "another key": message(t, signer(t, "ab"), good, "a"), "a body that Read rejects": message(t, own, good, "bad"),
		"unknown claims":   message(t, own, map[string]any{"org": "org_1", "kind": contract.KindSearch, "expires": good.Expires, "more": 1}, "a"),
		"a tool call":      message(t, own, contract.Capability{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: good.Expires}, "a"),
		"a check":          message(t, own, contract.CheckClaims{OrganizationID: "org_1", Kind: contract.KindSearch, Expires: good.Expires}, "a"),
		"no claims":        message(t, own, "x", "a"),
		"more than claims": {Capability: own.Sign(append(raw, "{}"...), []byte("a")), Body: []byte("a")},
		"unsigned":         {Capability: "x.y", Body: []byte("a")}, "nothing signed": {Body: []byte("a")},
	}
	for name, m := range refusals {
		if owner, ok := b.owner(m); ok {
			t.Errorf("%s: accepted for %s", name, owner)
		}
		if reply, ok := b.handle(t.Context(), m); ok {
			t.Errorf("%s: %s", name, reply)
		}
	}
	if *refused != 2*len(refusals) {
		t.Errorf("%d refused, want %d", *refused, 2*len(refusals))
	}

	late.Expires = time.Now().Add(-2 * time.Second) // the clocks of two hosts may differ by this time
	for name, claims := range map[string]contract.SearchClaims{"good": good, "two seconds late": late} {
		m := message(t, own, claims, "a")
		if owner, ok := b.owner(m); owner != "org_1" || !ok {
			t.Errorf("%s: the owner is %q, %v", name, owner, ok)
		}
		if reply, ok := b.handle(t.Context(), m); string(reply) != "org_1 a 3s" || !ok {
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
		m := message(t, signer(t, "6b"), claims, "a")
		if _, ok := b.owner(m); !ok {
			t.Fatal("refused")
		}
		<-time.After(time.Second + contract.ClockLeeway)
		if reply, ok := b.handle(t.Context(), m); ok {
			t.Errorf("expired: %s", reply)
		}
	})
}
