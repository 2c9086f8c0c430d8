package searchserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
)

// clockLeeway is how far the clocks of whoever signs and whoever verifies may be apart.
const clockLeeway = 5 * time.Second

var (
	errExpired  = errors.New("the claims are over")
	errKind     = errors.New("the claims are not for a search")
	errNotBound = errors.New("the claims name no organization")
	errTrailing = errors.New("something follows the claims")
)

// verify reads a search and its claims; what it gives was signed by one of this service's processes.
func (s *Server) verify(m bus.ToolMessage) (contract.SearchClaims, contract.SearchRequest, error) {
	var c contract.SearchClaims
	var r contract.SearchRequest
	claims, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return c, r, fmt.Errorf("verifying claims: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(claims))
	d.DisallowUnknownFields() // what this release does not know might say what is not allowed
	if err := d.Decode(&c); err != nil {
		return c, r, fmt.Errorf("reading claims: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, r, errTrailing
	}
	if err := json.Unmarshal(m.Body, &r); err != nil { // of a later release it may say more
		return c, r, fmt.Errorf("reading search: %w", err)
	}
	if r.Limit < 1 {
		r.Limit = defaultLimit
	}
	r.Limit = min(r.Limit, maxLimit)
	switch {
	case c.Kind != contract.KindSearch:
		return c, r, errKind
	case !c.Expires.Add(clockLeeway).After(time.Now()):
		return c, r, errExpired
	case c.OrganizationID == "":
		return c, r, errNotBound
	}
	return c, r, nil
}
