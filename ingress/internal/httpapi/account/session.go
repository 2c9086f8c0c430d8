package account

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// callerView describes the caller in responses. It contains ids and the role, and no names.
type callerView struct {
	// User, or system for a key of an organization.
	Kind           domain.CallerKind `json:"kind"`
	UserID         string            `json:"userId,omitempty"`
	KeyID          string            `json:"keyId,omitempty"`
	OrganizationID string            `json:"organizationId"`
	// Role in the organization in which the request acts.
	Role domain.Role `json:"role"`
}

// SessionView is the response of GET /api/auth/session: the caller and the organizations in which
// the caller may act. The dashboard gets it with its first page; other clients request it to verify
// a credential.
type SessionView struct {
	Caller callerView `json:"caller"`
	// Nil for a key of an organization.
	User        *domain.User `json:"user,omitempty"`
	EmailProven *bool        `json:"emailProven,omitempty"` // whether the email address is proven, so that invitations to it are listed; nil for keys
	CanLogIn    *bool        `json:"canLogIn,omitempty"`    // whether the person can log in without a link; nil for keys
	// Organization in which the request acts.
	Organization domain.Organization `json:"organization"`
	// All organizations of the user; for a key of an organization, only that organization.
	Organizations []domain.Membership `json:"organizations"`
}

// session handles GET /api/auth/session. Any credential is accepted.
func (h *Handler) session(c *gin.Context) error {
	view, err := h.Session(c.Request.Context(), httpx.Caller(c))
	if err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, view)
}

// Session returns the response of GET /api/auth/session for a caller. The dashboard's page contains
// this response, so that the page needs no further request.
func (h *Handler) Session(ctx context.Context, who domain.Caller) (SessionView, error) {
	view := SessionView{Caller: callerView{who.Kind, who.UserID, who.KeyID, who.OrganizationID, who.Role}}
	var err error
	if view.Organization, err = h.OrganizationsDB.Organization(ctx, who.OrganizationID); err != nil {
		return view, err
	}
	if who.UserID == "" { // an organization's key may act only in that organization
		view.Organizations = []domain.Membership{{Organization: view.Organization, Role: who.Role}}
		return view, nil
	}

	// Keys of a user act for the user, so the user is shown.
	user, err := h.AccountsDB.User(ctx, who.UserID)
	if err != nil {
		return view, err
	}

	access, err := h.AccountsDB.Access(ctx, who.UserID)
	if err != nil {
		return view, err
	}

	canLogIn := access.Password || access.OpenID && h.provider != nil
	view.User, view.EmailProven, view.CanLogIn = &user, &access.Proven, &canLogIn
	view.Organizations, err = h.OrganizationsDB.Memberships(ctx, who.UserID)
	return view, err
}
