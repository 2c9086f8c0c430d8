package pageserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/document"
	"parley/workers/internal/pageserver"
	"parley/workers/internal/signed/signedtest"
)

// testEnv is a page server together with a bus that passes requests directly to it.
type testEnv struct {
	*testing.T
	*signedtest.Bus

	log bytes.Buffer
}

// OpenDocument opens a document of the organization org_1. This organization has two documents:
// doc_1, which is a PDF, and doc_2, which is a text.
func (*testEnv) OpenDocument(_ context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error) {
	sum := "sum"
	content := struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader("content"), io.NopCloser(nil)}
	kind := map[string]string{"doc_1": domain.MIMETypePDF, "doc_2": "text/plain"}[id]
	switch {
	case id == "doc_down":
		return domain.Document{}, nil, errors.New("the database is away")
	case org != "org_1" || kind == "":
		return domain.Document{}, nil, apierr.Missing()
	}
	return domain.Document{ID: id, MIMEType: kind, SHA256: &sum}, content, nil
}

// Picture returns page 1 or 2 of a document. Page 2 has a word of 1 MiB, which does not fit into a
// reply. Other pages cause errors.
func (*testEnv) Picture(_ context.Context, content []byte, page int) (domain.PagePicture, error) {
	p := domain.PagePicture{MIMEType: "image/png", Width: 1, Height: 1, Data: content, Words: []domain.PageWord{{Text: "a"}}}
	switch page {
	case 1:
		return p, nil
	case 2:
		p.Words[0].Text = strings.Repeat("a", 1<<20)
		return p, nil
	case 3:
		return domain.PagePicture{}, &document.Failure{Code: document.Internal, Message: "later", Retry: true}
	}
	return domain.PagePicture{}, &document.Failure{Code: document.Damaged, Message: "The PDF is damaged."}
}

func newEnv(t *testing.T) *testEnv {
	t.Helper()
	b := &testEnv{T: t, Bus: signedtest.NewBus()}
	s, err := pageserver.New(pageserver.Deps{
		Bus: b, Documents: b, Renderer: b, Verifier: signedtest.Signer(t), Metrics: prometheus.NewRegistry(), Log: zerolog.New(&b.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Start(t, s.Run)
	return b
}

func claims(change func(*contract.PageClaims)) contract.PageClaims {
	c := contract.PageClaims{
		OrganizationID: "org_1", DocumentID: "doc_1", SHA256: "sum", Page: 1, Kind: contract.KindPages, Expires: time.Now().Add(time.Minute).UTC(),
	}
	change(&c)
	return c
}

// ask sends a request. It returns false if the server refuses the claims.
func (b *testEnv) ask(c contract.PageClaims) (reply contract.PageReply, ok bool) {
	b.Helper()
	m := signedtest.Message(b.T, c, "")
	answer, ok := b.Handle(b.Context(), m)
	if _, accepted := b.Owner(m); accepted != ok {
		b.Errorf("%+v: accepted %t, served %t", c, accepted, ok)
	}
	if ok && json.Unmarshal(answer, &reply) != nil {
		b.Errorf("%+v: %s", c, answer)
	}
	if len(answer) > 900<<10 {
		b.Errorf("%+v: a reply of %d bytes", c, len(answer))
	}
	return reply, ok
}

func TestPages(t *testing.T) {
	t.Parallel()
	b := newEnv(t)
	for name, c := range map[string]struct {
		change func(*contract.PageClaims)
		want   string
	}{
		"a page":               {func(*contract.PageClaims) {}, "1 words"},
		"too many words":       {func(c *contract.PageClaims) { c.Page = 2 }, "0 words"},
		"a passing fault":      {func(c *contract.PageClaims) { c.Page = 3 }, "unavailable"},
		"a damaged page":       {func(c *contract.PageClaims) { c.Page = 4 }, "The PDF is damaged."},
		"another content":      {func(c *contract.PageClaims) { c.SHA256 = "old" }, "The document was replaced or deleted. Load it again."},
		"a text":               {func(c *contract.PageClaims) { c.DocumentID = "doc_2" }, "Only pages of PDF documents can be shown as pictures."},
		"another organization": {func(c *contract.PageClaims) { c.OrganizationID = "org_2" }, "The document was replaced or deleted. Load it again."},
		"no database":          {func(c *contract.PageClaims) { c.DocumentID = "doc_down" }, "unavailable"},
	} {
		reply, ok := b.ask(claims(c.change))
		got := reply.Failure
		switch {
		case reply.Unavailable:
			got = "unavailable"
		case reply.Picture != nil:
			got = string(rune('0'+len(reply.Picture.Words))) + " words"
		}
		if !ok || got != c.want {
			t.Errorf("%s: %q, %t; want %q", name, got, ok, c.want)
		}
	}
	if log := b.log.String(); !strings.Contains(log, "the database is away") || strings.Contains(log, "damaged") {
		t.Errorf("the log: %s", log)
	}
}

func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	b := newEnv(t)
	for name, change := range map[string]func(*contract.PageClaims){
		"no document":  func(c *contract.PageClaims) { c.DocumentID = "" },
		"no content":   func(c *contract.PageClaims) { c.SHA256 = "" },
		"no page":      func(c *contract.PageClaims) { c.Page = 0 },
		"another kind": func(c *contract.PageClaims) { c.Kind = contract.KindSearch },
	} {
		if _, ok := b.ask(claims(change)); ok {
			t.Errorf("%s: served", name)
		}
	}
}
