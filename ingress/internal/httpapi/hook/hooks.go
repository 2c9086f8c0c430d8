package hook

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/webhookin"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/hookdb"
)

// shownHook returns a hook in the form of responses. The secret in the hook is a placeholder, which
// the store has set. shownHook does not change the lists of the argument.
func (h *Handler) shownHook(hook domain.Hook) domain.Hook {
	hook.URL = h.PublicURL + ReceivePath + hook.ID
	if hook.Filter == nil {
		hook.Filter = []domain.HookFilter{}
	}
	return hook
}

// getHooks handles GET /api/hooks: it returns a page of the organization's hooks, or with ?id= one
// hook. Secrets are replaced by a placeholder.
func (h *Handler) getHooks(c *gin.Context) error {
	hookID, present, err := httpx.QueryID(c, id.Hook)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID
	if present {
		hook, err := h.HooksDB.Hook(c.Request.Context(), org, hookID)
		if err != nil {
			return err
		}
		return httpx.JSON(c, http.StatusOK, h.shownHook(hook))
	}

	p, err := httpx.ReadPage(c, id.Hook)
	if err != nil {
		return err
	}

	// Read the sizes first. If the page is large, wait for capacity before reading its hooks.
	sizes, err := h.HooksDB.HookSizes(c.Request.Context(), org, p.After, p.Limit+1)
	if err == nil {
		err = httpx.ReservePage(c, sizes, &p)
	}

	var hooks []domain.Hook
	if err == nil {
		hooks, err = h.HooksDB.Hooks(c.Request.Context(), org, p.After, p.Limit+1)
	}
	if err != nil {
		return err
	}

	for i := range hooks {
		hooks[i] = h.shownHook(hooks[i])
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(hooks, p, func(h domain.Hook) string { return h.ID }))
}

// createHook handles POST /api/hooks. If the service generates the secret, only this response shows
// it. The status is 201. The key in the body, or else the caller's key, must be a key of the
// organization.
func (h *Handler) createHook(c *gin.Context) error {
	body, found, err := httpx.Collect[newHookBody](c)
	if err != nil {
		return err
	}

	who := httpx.Caller(c)

	hook := body.hook()
	if hook.KeyID = body.KeyID.Value; !body.KeyID.Set {
		if hook.KeyID = who.KeyID; who.KeyID == "" || who.UserID != "" {
			found.Add("keyId", httpx.CodeRequired, "is required: the API key of the organization that starts the runs")
		}
	}

	if err := found.Err(); err != nil {
		return err
	}

	// Create the id first, because the secret's encryption context contains it.
	hook.ID = id.New(id.Hook)
	secret := body.Secret.Or("")
	if secret == "" {
		secret = webhookin.NewSecret(hook.Source)
	}

	stored, err := h.HooksDB.CreateHook(c.Request.Context(), hookdb.NewHook{
		Hook: hook, OrganizationID: who.OrganizationID, SealedSecret: h.Secrets.Seal(secret, secrets.Hook(who.OrganizationID, hook.ID)),
		Max: h.MaxHooks,
	})
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusCreated, h.withSecret(stored, secret, !body.Secret.Set))
}

// withSecret returns a hook for the response to its creation or to the rotation of its secret. If
// made is true, the service has generated the secret, and the response shows it. Otherwise the
// response contains the placeholder.
func (h *Handler) withSecret(hook domain.Hook, secret string, made bool) domain.Hook {
	hook = h.shownHook(hook)
	if hook.Secret = httpx.HiddenSecret; made {
		hook.Secret = secret
	}
	return hook
}

// updateHook handles PUT /api/hooks?id=. Missing fields stay unchanged. The new configuration
// applies at this process immediately, and at other processes within 5 seconds.
func (h *Handler) updateHook(c *gin.Context) error {
	hookID, err := httpx.RequiredID(c, id.Hook)
	if err != nil {
		return err
	}

	body, found, err := httpx.Collect[hookChangeBody](c)
	if err != nil {
		return err
	}
	if err := found.Err(); err != nil {
		return err
	}

	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	known, err := h.HooksDB.Hook(ctx, org, hookID)
	if err != nil {
		return err
	}

	body.checkHeaders(found, known.Source)
	if body.SignatureHeader.Null {
		body.SignatureHeader.Value = defaultHeader(known.Source)
	}
	if err := httpx.Unchanged(found, body, h.shownHook(known)); err != nil {
		return err
	}

	changed, err := h.HooksDB.UpdateHook(ctx, org, hookID, body.change())
	if err != nil {
		return err
	}

	h.Hooks.Forget(hookID)
	return httpx.JSON(c, http.StatusOK, h.shownHook(changed))
}

// change returns the change to a hook that the body describes. A nil pointer means that the field
// stays unchanged.
func (b *hookChangeBody) change() hookdb.HookChange {
	change := hookdb.HookChange{
		Name: b.Name.Pointer(), AgentID: b.AgentID.Pointer(), KeyID: b.KeyID.Pointer(), MessageTemplate: b.MessageTemplate.Pointer(),
		SignatureHeader: b.SignatureHeader.Pointer(), DeliveryIDHeader: b.DeliveryIDHeader.Pointer(), Enabled: b.Enabled.Pointer(),
	}
	if b.OutputSchema.Set {
		schema := domain.JSONSchema(b.OutputSchema.Value)
		change.OutputSchema = &schema
	}
	if b.Filter.Set {
		filter := b.filter()
		change.Filter = &filter
	}

	if b.Coalesce.Set {
		coalesce := b.coalesce()
		change.Coalesce = &coalesce
	}
	return change
}

// deleteHook handles DELETE /api/hooks?id=. This ingress process rejects deliveries to the hook
// immediately, and other processes do so within 5 seconds. Runs that the hook has started continue.
func (h *Handler) deleteHook(c *gin.Context) error {
	hookID, err := httpx.RequiredID(c, id.Hook)
	if err != nil {
		return err
	}
	if err := h.HooksDB.DeleteHook(c.Request.Context(), httpx.Caller(c).OrganizationID, hookID); err != nil {
		return err
	}

	h.Hooks.Forget(hookID)
	return httpx.JSON(c, http.StatusOK, httpx.Deleted(hookID))
}

// rotateHook handles POST /api/hooks?id=&action=rotate: it sets a new secret. The previous secret
// stays valid for the number of seconds in the body, which is optional. Both secrets are accepted
// until then, so that the source can be changed in between.
func (h *Handler) rotateHook(c *gin.Context) error {
	hookID, body, err := actionOnHook[rotateHookBody](c)
	if err != nil {
		return err
	}

	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	known, err := h.HooksDB.Hook(ctx, org, hookID)
	if err != nil {
		return err
	}

	secret := body.Secret.Or("")

	// The rules for a chosen secret depend on the source, so they are checked here and not in
	// Check.
	if body.Secret.Set {
		found := &httpx.Problems{}
		checkSecret(found, known.Source, secret)
		err = found.Err()
	} else {
		secret = webhookin.NewSecret(known.Source)
	}

	if err != nil {
		return err
	}

	sealed := h.Secrets.Seal(secret, secrets.Hook(org, hookID))
	changed, err := h.HooksDB.UpdateHook(ctx, org, hookID, hookdb.HookChange{
		SealedSecret: &sealed, KeepPrevious: time.Duration(body.KeepSeconds.Or(httpx.DefaultOverlap)) * time.Second,
	})
	if err != nil {
		return err
	}

	h.Hooks.Forget(hookID)
	return httpx.JSON(c, http.StatusOK, h.withSecret(changed, secret, !body.Secret.Set))
}

// actionOnHook reads the query's id and the optional body of a request for an action. An empty body
// is the zero value of T.
func actionOnHook[T any](c *gin.Context) (hookID string, body T, err error) {
	if c.Request.ContentLength != 0 {
		body, err = httpx.Bind[T](c)
	}
	if err == nil {
		hookID, err = httpx.RequiredID(c, id.Hook)
	}
	return hookID, body, err
}
