package searchserver

import (
	"encoding/json"
	"errors"
	"fmt"

	"parley/shared/bus"
	"parley/shared/contract"
)

var (
	errExpired  = errors.New("the claims have expired")
	errKind     = errors.New("the claims are not for a search")
	errNotBound = errors.New("the claims have no organization")
)

// verify decodes a request and its claims. It fails unless both were signed together by a process
// of this service and the claims allow the search.
func (s *Server) verify(m bus.ToolMessage) (contract.SearchClaims, contract.SearchRequest, error) {
	var c contract.SearchClaims
	var r contract.SearchRequest
	claims, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return c, r, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(claims, &c); err != nil {
		return c, r, fmt.Errorf("reading claims: %w", err)
	}
	if err := json.Unmarshal(m.Body, &r); err != nil { // a later release may send more fields
		return c, r, fmt.Errorf("reading search: %w", err)
	}
	if r.Limit < 1 {
		r.Limit = defaultLimit
	}
	r.Limit = min(r.Limit, maxLimit)
	switch {
	case c.Kind != contract.KindSearch:
		return c, r, errKind
	case contract.Expired(c.Expires):
		return c, r, errExpired
	case c.OrganizationID == "":
		return c, r, errNotBound
	}
	return c, r, nil
}
