package httpapi

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/id"
	"parley/shared/store"
)

// finders holds the finder of each collection.
type finders struct{ target, session, run, source, file, hook, delivery httpx.Finder }

func (a *api) finders() finders {
	return finders{
		hook:     inOrganization(a, (*store.Store).Hook, id.Hook),
		source:   inOrganization(a, (*store.Store).SourceByID),
		run:      httpx.ByID(httpx.OnlyError(a.findRun), id.Run),
		file:     httpx.ByID(a.findFile, id.File),
		target:   a.findTarget,
		session:  a.findSession,
		delivery: a.findDelivery,
	}
}

// inOrganization makes the finder of things that everybody in the organization may read.
func inOrganization[T any](a *api, read func(*store.Store, context.Context, string, string) (T, error), prefixes ...string) httpx.Finder {
	return httpx.ByID(func(c *gin.Context, thing string) error {
		_, err := read(a.Store, c.Request.Context(), httpx.Caller(c).OrganizationID, thing)
		return err
	}, prefixes...)
}

func (a *api) findFile(c *gin.Context, fileID string) error {
	_, content, err := a.openFile(c, fileID)
	if err == nil {
		_ = content.Close() // nothing was written to it
	}
	return err
}

// findTarget looks up the agent or template that a chat's query names.
func (a *api) findTarget(c *gin.Context) error {
	agents, templates := httpx.Query(c)["id"], httpx.Query(c)["template"]
	switch {
	case len(agents) == 1 && len(templates) == 0 && agents[0] != "":
		if !id.Valid(id.Agent, agents[0]) {
			return httpx.NotFound()
		}
		_, err := a.Store.Agent(c.Request.Context(), httpx.Caller(c).OrganizationID, agents[0])
		return err
	case len(templates) == 1 && len(agents) == 0 && templates[0] != "":
		_, err := a.templates.ByID(c.Request.Context(), templates[0])
		return err
	}
	return nil
}

func (a *api) findSession(c *gin.Context) error {
	found := &httpx.Problems{}
	name, exists := a.sessionNamed(c, found)
	switch {
	case found.Err() != nil:
		return nil //nolint:nilerr // the query names no session
	case !exists || !httpx.IsText(name.SessionID):
		return httpx.NotFound()
	}
	_, _, _, err := a.Store.ReadSession(c.Request.Context(), name, 0, 1) //nolint:dogsled // whether there is one is all that counts
	return err
}

func (a *api) findDelivery(c *gin.Context) error {
	hooks, deliveries := httpx.Query(c)["hookId"], httpx.Query(c)["id"]
	if len(hooks) != 1 || len(deliveries) != 1 || hooks[0] == "" || deliveries[0] == "" {
		return nil
	}
	err := a.ownHook(c, hooks[0])
	if err == nil && !httpx.IsText(deliveries[0]) {
		err = httpx.NotFound()
	}
	if err == nil {
		_, err = a.Store.Delivery(c.Request.Context(), httpx.Caller(c).OrganizationID, hooks[0], deliveries[0])
	}
	return err
}
