package account

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// listLogins handles GET /api/auth/sessions: it lists the caller's login sessions, newest first.
// The session of the request is marked in the list.
func (h *Handler) listLogins(c *gin.Context) error {
	ident := httpx.Identity(c)
	p, err := httpx.ReadTimePage(c, id.Login)
	if err != nil {
		return err
	}

	logins, err := h.AccountsDB.Logins(c.Request.Context(), ident.Caller.UserID, secrets.Hash(ident.Token), p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewTimeList(logins, p, func(l accountdb.Login) (domain.LoginSession, accountdb.After) {
		return l.LoginSession, accountdb.After{At: l.At, ID: l.ID}
	}))
}

// endLogin handles DELETE /api/auth/sessions?id=: it ends one of the caller's login sessions. The
// session becomes invalid at this ingress process immediately, and at other ingress processes
// within 5 seconds. If it is the session of the request, the cookie is deleted too.
func (h *Handler) endLogin(c *gin.Context) error {
	ident := httpx.Identity(c)
	loginID, err := httpx.RequiredID(c, id.Login)
	if err != nil {
		return err
	}

	hash, err := h.AccountsDB.EndLogin(c.Request.Context(), ident.Caller.UserID, loginID)
	if err != nil {
		return err
	}

	h.Auth.ForgetLogin(hash)
	if ident.Via == auth.ViaCookie && string(hash) == string(secrets.Hash(ident.Token)) {
		auth.ClearCookie(c.Writer, h.Secure(c))
	}

	return httpx.JSON(c, http.StatusOK, httpx.Deleted(loginID))
}
