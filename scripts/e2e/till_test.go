package e2e

import (
	"strings"
	"testing"

	kit "parley/scripts/internal/cluster"
)

// till is a running till, which agents' tools call.
type till struct {
	kit.Till

	url  string
	host string // for OUTBOUND_ALLOW
}

func newTill(t *testing.T) *till {
	t.Helper()
	l := &till{}
	l.url = site(t, &l.Till).URL
	l.host = strings.TrimPrefix(l.url, "http://")
	return l
}
