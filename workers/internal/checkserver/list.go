package checkserver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/signed"
)

const (
	listTime    = 5 * time.Second  // time limit for listing the models of all providers
	listAge     = time.Minute      // time for which a list is used
	listRetry   = 10 * time.Second // maximum age of an incomplete list, which lacks the models of a provider
	listSlots   = 16
	listWaiting = 64
)

// ModelLister lists the models that agents can use. If the models of a provider are missing, it
// returns the models of the other providers and an error.
type ModelLister interface {
	List(ctx context.Context) (domain.ModelList, error)
}

// ListServer handles requests of ingresses for the list of models that agents can use. It keeps the
// latest list, so most requests need no call of a provider. Create it with NewList and start it
// with Run.
type ListServer struct {
	models ModelLister
	deps   Deps

	mu    sync.Mutex // held during the requests to the providers, so that simultaneous requests share one list
	list  domain.ModelList
	until time.Time
}

// NewList creates a server for the list of models. It uses only the bus, the verifier and the log
// in deps.
func NewList(models ModelLister, deps Deps) *ListServer {
	return &ListServer{models: models, deps: deps}
}

// Run answers requests until ctx ends.
func (s *ListServer) Run(ctx context.Context) error {
	return (&signed.Server[contract.ListModelsClaims, struct{}]{
		Kind: contract.KindListModels, Slots: listSlots, Queue: listWaiting, Bus: s.deps.Bus, Verifier: s.deps.Verifier, Log: s.deps.Log,
		Read:   func(contract.ListModelsClaims, []byte) (none struct{}, err error) { return none, nil },
		Handle: s.handle,
	}).Run(ctx)
}

// handle returns the encoded list.
func (s *ListServer) handle(ctx context.Context, _ contract.ListModelsClaims, _ struct{}) []byte {
	raw, err := json.Marshal(contract.ModelListReply{List: s.current(ctx)})
	if err != nil {
		return []byte(`{}`) // cannot happen: every list can be encoded
	}
	return raw
}

// current returns the list of models, which is at most listAge old. If the list is incomplete, it
// is requested again after listRetry.
func (s *ListServer) current(ctx context.Context) domain.ModelList {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.list
	}

	// The requests to the providers do not use the caller's context, because other callers wait for
	// the same list.
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
