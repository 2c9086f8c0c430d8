package httpapi

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
)

// finders holds the finder of each collection.
type finders struct {
	agent, target, template, session, run, automation, budget, source, file, hook, delivery, endpoint, message,
	organization, member, invitation, key, login httpx.Finder
}

func (a *api) finders() finders {
	return finders{
		agent:        inOrganization(a, (*store.Store).Agent, id.Agent),
		budget:       inOrganization(a, (*store.Store).Budget, id.Budget),
		hook:         inOrganization(a, (*store.Store).Hook, id.Hook),
		endpoint:     inOrganization(a, (*store.Store).Endpoint, id.Endpoint),
		message:      inOrganization(a, (*store.Store).Notification, id.Notification),
		source:       inOrganization(a, (*store.Store).SourceByID),
		automation:   httpx.ByID(httpx.OnlyError(a.readAutomation)),
		member:       httpx.ByID(httpx.OnlyError(a.readMember), id.User, id.Invitation),
		template:     httpx.ByID(httpx.OnlyError(a.readTemplate), id.Template),
		key:          httpx.ByID(httpx.OnlyError(a.readKey), id.Key),
		login:        httpx.ByID(httpx.OnlyError(a.readLogin), id.Login),
		invitation:   httpx.ByID(httpx.OnlyError(a.readInvitation), id.Invitation),
		run:          httpx.ByID(httpx.OnlyError(a.findRun), id.Run),
		file:         httpx.ByID(a.findFile, id.File),
		organization: httpx.ByID(a.findOrganization, id.Organization),
		target:       a.findTarget,
		session:      a.findSession,
		delivery:     a.findDelivery,
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

func (a *api) findOrganization(c *gin.Context, org string) error {
	found, err := a.organizationsOf(c, httpx.Page{Limit: 1}, org)
	if err == nil && len(found) == 0 {
		err = httpx.NotFound()
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
		_, err := a.readTemplate(c, templates[0])
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

// readKey reads an API key that the caller may list.
func (a *api) readKey(c *gin.Context, keyID string) (domain.APIKey, error) {
	return a.Store.Key(c.Request.Context(), keysOf(c), keyID)
}

// readLogin reads a login session of the caller's.
func (a *api) readLogin(c *gin.Context, loginID string) (domain.LoginSession, error) {
	ident := httpx.Identity(c)
	return a.Store.Login(c.Request.Context(), ident.Caller.UserID, secrets.Hash(ident.Token), loginID)
}

func (a *api) readMember(c *gin.Context, entry string) (domain.Member, error) {
	member, err := a.Store.Member(c.Request.Context(), httpx.Caller(c).OrganizationID, entry)
	return member.Member, err
}

func (a *api) readAutomation(c *gin.Context, name string) (domain.Automation, error) {
	return a.Store.Automation(c.Request.Context(), httpx.Caller(c).OrganizationID, name)
}

func (a *api) readTemplate(c *gin.Context, templateID string) (domain.Template, error) {
	all, err := a.templates.get(c.Request.Context(), a.Store)
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
