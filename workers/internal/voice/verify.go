package voice

import (
	"encoding/json"
	"errors"
	"fmt"

	"parley/shared/contract"
)

// Reasons why a session is rejected. They are logged but not sent to the ingress.
var (
	errExpired  = errors.New("the signed request has expired")
	errKind     = errors.New("the signed request is not for a voice session")
	errNotBound = errors.New("the signed request names no organization or no voice session")
	errLine     = errors.New("the signed request is for another voice session")
	errOrg      = errors.New("the signed request is for another organization")
	errRange    = errors.New("numbers in the request for a voice session are out of range")
)

// admit returns the id of the session that a request opens. It fails unless a process of this
// service has signed the request together with its capability. The bus calls admit before it
// assigns a session to this worker.
func (s *Server) admit(capability string, body []byte) (session string, ok bool) {
	claims, err := s.verify(capability, body)
	if err != nil {
		s.metrics.refused.Inc()
		s.log.Warn().Err(err).Msg("voice session rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
		return "", false
	}
	return claims.Line, true
}

// verify checks that a capability permits the session that body describes. It returns the
// capability's claims.
func (s *Server) verify(capability string, body []byte) (contract.VoiceClaims, error) {
	var c contract.VoiceClaims

	raw, err := s.deps.Verifier.Verify(capability, body)
	if err != nil {
		return c, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &c); err != nil {
		return c, fmt.Errorf("reading claims: %w", err)
	}

	var open contract.VoiceOpen
	if err := json.Unmarshal(body, &open); err != nil { // unknown fields are ignored, because a later release may send more fields
		return c, fmt.Errorf("reading voice session: %w", err)
	}

	switch {
	// The claims of another kind of request, such as a tool call, must not open a voice session.
	case c.Kind != contract.KindVoice:
		return c, errKind
	case contract.Expired(c.Expires):
		return c, errExpired
	case c.OrganizationID == "" || c.Line == "":
		return c, errNotBound
	case c.Line != open.Line:
		return c, errLine
	case c.OrganizationID != open.OrganizationID:
		return c, errOrg
	case !open.Holds():
		return c, errRange
	}
	return c, nil
}
