package checkserver

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
)

const (
	listTime    = 5 * time.Second  // time limit for the providers
	listAge     = time.Minute      // how long a list is used
	listRetry   = 10 * time.Second // the same for a list that lacks the models of a provider
	listSlots   = 16
	listWaiting = 64
)

// ModelLister lists the models that agents can use. If the models of a provider are missing, it returns an error, too.
type ModelLister interface {
	List(ctx context.Context) (domain.ModelList, error)
}

// ListServer lists the models that agents can use, on request of an ingress. Create it with NewList and start it with Run.
type ListServer struct {
	models ModelLister
	deps   Deps

	mu    sync.Mutex // held while the providers are asked, so that simultaneous requests share the answer
	list  domain.ModelList
	until time.Time
}

// NewList creates the server of the list of models. It uses only the bus, the verifier and the log of deps.
func NewList(models ModelLister, deps Deps) *ListServer {
	return &ListServer{models: models, deps: deps}
}

// Run answers requests until ctx ends.
func (s *ListServer) Run(ctx context.Context) error {
	serving := bus.ToolServing{Slots: listSlots, Queue: listWaiting, Owner: s.owner}
	stop, err := s.deps.Bus.ServeTool(contract.KindListModels, serving, s.handle)
	if err != nil {
		return fmt.Errorf("serving the list of models: %w", err)
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// owner returns the organization of a request. It returns false if the request has no valid claims.
func (s *ListServer) owner(m bus.ToolMessage) (string, bool) {
	claims, err := s.verify(m)
	if err != nil {
		s.deps.Log.Warn().Err(err).Msg("list of models refused: check that all processes have the same SECRETS_KEY and synchronized clocks")
	}
	return claims.OrganizationID, err == nil
}

func (s *ListServer) verify(m bus.ToolMessage) (claims contract.ListModelsClaims, err error) {
	raw, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return claims, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &claims); err != nil {
		return claims, fmt.Errorf("reading claims: %w", err)
	}
	switch {
	case contract.Expired(claims.Expires):
		return claims, errExpired
	case claims.Kind != contract.KindListModels:
		return claims, errKind
	case claims.OrganizationID == "":
		return claims, errNotBound
	}
	return claims, nil
}

// handle returns the encoded list. It returns false if the request has no valid claims.
func (s *ListServer) handle(ctx context.Context, m bus.ToolMessage) ([]byte, bool) {
	if _, err := s.verify(m); err != nil {
		return nil, false
	}
	raw, err := json.Marshal(contract.ModelListReply{List: s.current(ctx)})
	return raw, err == nil
}

// current returns the list, at most listAge old.
func (s *ListServer) current(ctx context.Context) domain.ModelList {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.list
	}

	// A caller that leaves does not cancel the request for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
	defer cancel()
	list, err := s.models.List(ctx)
	s.list, s.until = list, time.Now().Add(listAge)
	if err != nil {
		s.deps.Log.Warn().Err(err).Msg("the list of models is incomplete")
		s.until = time.Now().Add(listRetry)
	}
	return s.list
}
