package agent

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/agentdb"
)

// templatesTTL is the maximum age of the cached templates.
const templatesTTL = 5 * time.Second

// Templates caches the templates for templatesTTL, because anyone may request the list. There is
// one per process. It is safe for concurrent use. Only the field AgentsDB must be set.
type Templates struct {
	AgentsDB *agentdb.Store

	// Guards the fields all and until. The mutex is held while the templates are read.
	mu sync.Mutex
	// All templates in their predefined order. The list is not changed after it is set.
	all []domain.Template
	// Time at which the templates expire; zero before the first read.
	until time.Time
}

// Get returns all templates. The result may be up to templatesTTL old. Callers must not change the
// list. Concurrent callers wait for one query, which takes at most 3 seconds. An error is not
// cached.
func (l *Templates) Get(ctx context.Context) ([]domain.Template, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.until) {
		return l.all, nil
	}

	// Ignore cancellation: the caller may disconnect while other callers wait for the result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	all, err := l.AgentsDB.Templates(ctx)
	if err != nil {
		return nil, err
	}

	l.all, l.until = all, now.Add(templatesTTL)
	return all, nil
}

// ByID returns a template, or not_found. It searches the cached list.
func (l *Templates) ByID(ctx context.Context, templateID string) (domain.Template, error) {
	all, err := l.Get(ctx)
	if err != nil {
		return domain.Template{}, err
	}
	for _, t := range all {
		if t.ID == templateID {
			return t, nil
		}
	}
	return domain.Template{}, httpx.NotFound()
}

// listTemplates handles GET /api/agents/templates. The route is public. The templates are in their
// predefined order. There are few templates, so pages are parts of the cached list. The cursor is
// the id of the last template of the previous page.
func (h *Handler) listTemplates(c *gin.Context) error {
	p, err := httpx.ReadPage(c, id.Template)
	if err != nil {
		return err
	}

	all, err := h.Templates.Get(c.Request.Context())
	if err != nil {
		return err
	}

	// The id of a removed template is rejected, because its position in the list is unknown.
	if p.After != "" {
		last := slices.IndexFunc(all, func(t domain.Template) bool { return t.ID == p.After })
		if last < 0 {
			return apierr.Invalid("cursor", httpx.CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
		all = all[last+1:]
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(all, p, func(t domain.Template) string { return t.ID }))
}
