package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/run"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const maxWait = 30 * time.Second // timeout for a step that a test waits for

// reader returns the owner of a transfer whose request has the given API key of an organization.
func reader(org, key int) transfer.Owner {
	name := strconv.Itoa(org)
	return transfer.Owner{Organization: "org_" + name, Credential: "key_" + name + "_" + strconv.Itoa(key), Client: "client_" + name}
}

// callerOwner returns the owner of a caller's transfers. The owner has no client address.
func callerOwner(who domain.Caller) transfer.Owner {
	return transfer.Owner{Organization: who.OrganizationID, Credential: who.Credential}
}

// broken is the content of a file that cannot be read.
type broken struct {
	*bytes.Reader
	seeks, reads error
}

func (b *broken) Seek(offset int64, whence int) (int64, error) {
	if b.seeks != nil {
		return 0, b.seeks
	}
	return b.Reader.Seek(offset, whence)
}

func (b *broken) Read([]byte) (int, error) { return 0, b.reads }

func TestContentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	away := apierr.New(apierr.Unavailable, "the database cannot be reached")
	for name, tc := range map[string]struct {
		content broken
		status  int
	}{
		"read":         {broken{reads: away}, 503},
		"sought":       {broken{seeks: away}, 503},
		"for no cause": {broken{reads: errors.New("secret cause")}, 500},
	} {
		tc.content.Reader = bytes.NewReader(numbers(100))
		rec := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(rec)
		c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		c.Header("Cache-Control", "no-store")
		c.Header(headerRequestID, "r")
		transfer.SendFile(c, domain.File{Name: "x", MIMEType: "image/png", SHA256: "aa", Bytes: 100}, run.FileCaching, &tc.content, takeSlot(t, &transfer.Limiter{Policy: transfer.Files}, rec, reader(1, 1)), httpx.SessionCheck{})
		got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}
		wantNoFileHeaders(t, name, got)
		if got.status != tc.status || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) ||
			got.requestID() != "r" || strings.Contains(string(got.body), "secret") {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
		}
	}
}

// takeSlot takes a slot for a new transfer.
func takeSlot(t *testing.T, all *transfer.Limiter, w http.ResponseWriter, who transfer.Owner) *transfer.Slot {
	t.Helper()
	p, err := all.Enter(who, http.NewResponseController(w))
	must(t, err)
	return p
}
