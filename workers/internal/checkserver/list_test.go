package checkserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/checkserver"
	"parley/workers/internal/signed/signedtest"
)

// lister counts how often models are listed.
type lister struct {
	lists int
	err   error
}

func (l *lister) List(context.Context) (domain.ModelList, error) {
	l.lists++
	return domain.ModelList{Default: "offline", Models: []string{"offline"}}, l.err
}

// A complete list is cached for a minute, and an incomplete list is cached for ten seconds. Claims
// of another kind are refused.
func TestListOfModels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, models := signedtest.NewBus(), &lister{err: errors.New("a provider is away")}
		e.Start(t, checkserver.NewList(models, checkserver.Deps{Bus: e, Verifier: signedtest.Signer(t), Log: zerolog.Nop()}).Run)
		ask := func(kind string) (string, bool) {
			m := signedtest.Message(t, contract.ListModelsClaims{OrganizationID: "org_1", Kind: kind, Expires: time.Now().Add(8 * time.Second)}, "")
			if _, ok := e.Owner(m); !ok {
				return "", false
			}
			raw, ok := e.Handle(t.Context(), m)
			return string(raw), ok
		}
		for _, step := range []struct {
			after time.Duration
			lists int
		}{{0, 1}, {9 * time.Second, 1}, {2 * time.Second, 2}, {50 * time.Second, 2}, {11 * time.Second, 3}} {
			<-time.After(step.after)
			if got, ok := ask(contract.KindListModels); got != `{"list":{"default":"offline","models":["offline"]}}` || !ok || models.lists != step.lists {
				t.Errorf("%s, %v after %d lists, want %d", got, ok, models.lists, step.lists)
			}
			models.err = nil
		}
		if got, ok := ask(contract.KindCheckModels); ok {
			t.Errorf("claims of another kind: %s", got)
		}
	})
}
