package organization

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

// membershipView is an organization in a response to a member. It is the list's entry as well as
// the response for one organization.
type membershipView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Role of the caller in the organization.
	Role      domain.Role `json:"role"`
	CreatedAt domain.Time `json:"createdAt"`
}

// view returns a membership in the form of responses.
func view(m domain.Membership) membershipView {
	return membershipView{m.ID, m.Name, m.Role, m.CreatedAt}
}

// getOrganizations handles GET /api/organizations: it returns the caller's organizations, newest
// first, or with ?id= one of them. The request may name any organization of the caller, not only
// the one in which it acts.
func (h *Handler) getOrganizations(c *gin.Context) error {
	org, one, err := httpx.QueryID(c, id.Organization)
	if err != nil {
		return err
	}

	// ReadPage also rejects invalid parameters of a request with an id.
	p, err := httpx.ReadPage(c, id.Organization)
	if err != nil {
		return err
	}
	if one {
		p = httpx.Page{Limit: httpx.MaxPage}
	}

	all, err := h.organizations(c, p, org)
	switch {
	case err != nil:
		return err
	case one && len(all) == 0:
		return apierr.Missing()
	case one:
		return httpx.JSON(c, http.StatusOK, view(all[0]))
	}
	views := make([]membershipView, len(all))
	for i, m := range all {
		views[i] = view(m)
	}
	return httpx.JSON(c, http.StatusOK, httpx.NewList(views, p, func(v membershipView) string { return v.ID }))
}

// organizations reads a page of the caller's organizations. If the argument only is not empty, it
// reads only the organization with that id. For a key of an organization, the only entry is that
// organization. The result is empty, without an error, if the caller has no such organization. It
// has up to one organization more than the page.
func (h *Handler) organizations(c *gin.Context, p httpx.Page, only string) ([]domain.Membership, error) {
	who, ctx := httpx.Caller(c), c.Request.Context()
	switch {
	case who.UserID != "" && only != "":
		return h.Organizations.MembershipIn(ctx, who.UserID, only)
	case who.UserID != "":
		return h.Organizations.OrganizationsFor(ctx, who.UserID, p.After, p.Limit+1)

	// A key's list has a single entry. The entry follows a cursor only if the cursor is greater
	// than the entry's id.
	case only != "" && only != who.OrganizationID, p.After != "" && p.After <= who.OrganizationID:
		return nil, nil
	}

	org, err := h.Organizations.Organization(ctx, who.OrganizationID)
	if err != nil {
		return nil, err
	}
	return []domain.Membership{{Organization: org, Role: who.Role}}, nil
}

// createOrganizationBody is the body of POST /api/organizations. The caller becomes the owner.
type createOrganizationBody struct {
	Name string `json:"name" required:"true"`
}

// Check checks the name. Names need not be unique.
func (b *createOrganizationBody) Check(p *httpx.Problems) { p.Name("name", b.Name, httpx.MaxName) }

// createOrganization handles POST /api/organizations: it creates an organization that the caller
// owns. The status is 201. The caller must be a person or a person's key.
func (h *Handler) createOrganization(c *gin.Context) error {
	body, err := httpx.Bind[createOrganizationBody](c)
	if err != nil {
		return err
	}

	who := httpx.Caller(c)
	made, err := h.Organizations.CreateOrganization(c.Request.Context(), who.UserID, body.Name)
	if err != nil {
		return err
	}

	// Drop the cached memberships of the caller, which do not contain the new organization.
	h.Auth.ForgetUser(who.UserID)
	return httpx.JSON(c, http.StatusCreated, view(made))
}

// renameOrganizationBody is the body of a PUT. It accepts all fields of an organization that was
// read with GET, but can change only the name. Read-only fields must have their current values.
type renameOrganizationBody struct {
	Name      httpx.Optional[string] `json:"name"`
	ID        httpx.ReadOnly         `json:"id"`
	Role      httpx.ReadOnly         `json:"role"`
	CreatedAt httpx.ReadOnly         `json:"createdAt"`
}

// Check checks the name, if it is present. Without a name, the organization stays unchanged.
func (b *renameOrganizationBody) Check(p *httpx.Problems) {
	if b.Name.Set {
		p.Name("name", b.Name.Value, httpx.MaxName)
	}
}

// renameOrganization handles PUT /api/organizations?id=. The caller must be an owner of the
// organization, in which the request need not act. Members without that role get permission_denied.
func (h *Handler) renameOrganization(c *gin.Context) error {
	org, err := httpx.RequiredID(c, id.Organization)
	if err != nil {
		return err
	}

	known, err := h.readOrganization(c, org)
	if err != nil {
		return err
	}

	body, found, err := httpx.Collect[renameOrganizationBody](c)
	if err == nil {
		err = httpx.Unchanged(found, body, view(known))
	}
	if err != nil {
		return err
	}

	// The change is recorded for the organization that is renamed.
	who := actor(c)
	who.OrganizationID = org
	renamed, err := h.Organizations.RenameOrganization(c.Request.Context(), who, body.Name.Or(known.Name))
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, view(renamed))
}
