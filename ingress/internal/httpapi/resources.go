package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
)

// finder looks up what the id of a query names: not_found unless the caller may read it. It runs when a request is refused
// for its parameters or body: only a caller who may read the thing learns what else is wrong.
type finder func(c *gin.Context) error

// finders holds the finder of each collection.
type finders struct {
	agent, target, template, session, run, automation, budget, source, file, document, hook, delivery, endpoint, message,
	organization, member, invitation, key, login finder
}

func (a *api) finders() finders {
	return finders{
		agent:        inOrganization(a, (*store.Store).Agent, id.Agent),
		budget:       inOrganization(a, (*store.Store).Budget, id.Budget),
		document:     inOrganization(a, (*store.Store).DocumentByID, id.Document),
		hook:         inOrganization(a, (*store.Store).Hook, id.Hook),
		endpoint:     inOrganization(a, (*store.Store).Endpoint, id.Endpoint),
		message:      inOrganization(a, (*store.Store).Notification, id.Notification),
		source:       inOrganization(a, (*store.Store).SourceByID),
		automation:   byID(onlyError(a.readAutomation)),
		member:       byID(onlyError(a.readMember), id.User, id.Invitation),
		template:     byID(onlyError(a.readTemplate), id.Template),
		key:          byID(onlyError(a.readKey), id.Key),
		login:        byID(onlyError(a.readLogin), id.Login),
		invitation:   byID(onlyError(a.readInvitation), id.Invitation),
		run:          byID(onlyError(a.findRun), id.Run),
		file:         byID(a.findFile, id.File),
		organization: byID(a.findOrganization, id.Organization),
		target:       a.findTarget,
		session:      a.findSession,
		delivery:     a.findDelivery,
	}
}

// getter reads a thing by its id.
type getter[T any] func(c *gin.Context, thing string) (T, error)

// onlyError is a getter of which only the error counts.
func onlyError[T any](read getter[T]) func(*gin.Context, string) error {
	return func(c *gin.Context, thing string) error { _, err := read(c, thing); return err }
}

// readOne makes the handler of GET ?id= of a collection.
func readOne[T any](read getter[T], prefixes ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		var thing T
		err := byID(func(c *gin.Context, named string) (err error) { thing, err = read(c, named); return err }, prefixes...)(c)
		if err != nil {
			fail(c, err)
			return
		}
		writeJSON(c, http.StatusOK, thing)
	}
}

// byID makes the finder of things whose id has one of the prefixes; without prefixes an id is any text.
func byID(find func(c *gin.Context, thing string) error, prefixes ...string) finder {
	return func(c *gin.Context) error {
		given := query(c)["id"]
		if len(given) != 1 || given[0] == "" {
			return nil
		}
		if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(prefix string) bool { return id.Valid(prefix, given[0]) }) ||
			!isText(given[0]) {
			return missing()
		}
		return find(c, given[0])
	}
}

// inOrganization makes the finder of things that everybody in the organization may read.
func inOrganization[T any](a *api, read func(*store.Store, context.Context, string, string) (T, error), prefixes ...string) finder {
	return byID(func(c *gin.Context, thing string) error {
		_, err := read(a.Store, c.Request.Context(), caller(c).OrganizationID, thing)
		return err
	}, prefixes...)
}

func missing() error { return apierr.New(apierr.NotFound, "no such resource") }

func (a *api) findFile(c *gin.Context, fileID string) error {
	_, content, err := a.openFile(c, fileID)
	if err == nil {
		_ = content.Close() // nothing was written to it
	}
	return err
}

func (a *api) findOrganization(c *gin.Context, org string) error {
	found, err := a.organizationsOf(c, page{limit: 1}, org)
	if err == nil && len(found) == 0 {
		err = missing()
	}
	return err
}

// findTarget looks up the agent or template that a chat's query names.
func (a *api) findTarget(c *gin.Context) error {
	agents, templates := query(c)["id"], query(c)["template"]
	switch {
	case len(agents) == 1 && len(templates) == 0 && agents[0] != "":
		if !id.Valid(id.Agent, agents[0]) {
			return missing()
		}
		_, err := a.Store.Agent(c.Request.Context(), caller(c).OrganizationID, agents[0])
		return err
	case len(templates) == 1 && len(agents) == 0 && templates[0] != "":
		_, err := a.readTemplate(c, templates[0])
		return err
	}
	return nil
}

func (a *api) findSession(c *gin.Context) error {
	found := &problems{}
	name, exists := a.sessionNamed(c, found)
	switch {
	case found.err() != nil:
		return nil //nolint:nilerr // the query names no session
	case !exists || !isText(name.SessionID):
		return missing()
	}
	_, _, _, err := a.Store.ReadSession(c.Request.Context(), name, 0, 1) //nolint:dogsled // whether there is one is all that counts
	return err
}

func (a *api) findDelivery(c *gin.Context) error {
	hooks, deliveries := query(c)["hookId"], query(c)["id"]
	if len(hooks) != 1 || len(deliveries) != 1 || hooks[0] == "" || deliveries[0] == "" {
		return nil
	}
	err := a.ownHook(c, hooks[0])
	if err == nil && !isText(deliveries[0]) {
		err = missing()
	}
	if err == nil {
		_, err = a.Store.Delivery(c.Request.Context(), caller(c).OrganizationID, hooks[0], deliveries[0])
	}
	return err
}

// readKey reads an API key that the caller may list.
func (a *api) readKey(c *gin.Context, keyID string) (domain.APIKey, error) {
	return a.Store.Key(c.Request.Context(), keysOf(c), keyID)
}

// readLogin reads a login session of the caller's.
func (a *api) readLogin(c *gin.Context, loginID string) (domain.LoginSession, error) {
	ident := identity(c)
	return a.Store.Login(c.Request.Context(), ident.Caller.UserID, secrets.Hash(ident.Token), loginID)
}

func (a *api) readMember(c *gin.Context, entry string) (domain.Member, error) {
	member, err := a.Store.Member(c.Request.Context(), caller(c).OrganizationID, entry)
	return member.Member, err
}

func (a *api) readAutomation(c *gin.Context, name string) (domain.Automation, error) {
	return a.Store.Automation(c.Request.Context(), caller(c).OrganizationID, name)
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
	return domain.Template{}, missing()
}
