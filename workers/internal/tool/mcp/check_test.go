package mcp_test

import (
	"errors"
	"net/http"
	"testing"

	"parley/workers/internal/tool"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	works := newTap(t, handler(newServer(), nil), nil)
	guarded := newTap(t, nil, func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	b := newBackend(t)
	req := request(at("works", works), at("guarded", guarded))

	// Each check requests the list again.
	for range 2 {
		detail, err := b.Check(t.Context(), req, at("works", works))
		if detail != "4 tools, protocol 2025-11-25" || err != nil {
			t.Errorf("Check = %q, %v", detail, err)
		}
	}
	if n := works.count("tools/list"); n != 2 {
		t.Errorf("%d lists of two checks", n)
	}

	_, err := b.Check(t.Context(), req, at("guarded", guarded))
	if public, ok := errors.AsType[*tool.Error](err); !ok || public.Message != "The server rejected the credentials (status 401)." {
		t.Errorf("Check = %v", err)
	}
}
