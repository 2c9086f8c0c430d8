package httpapi

import (
	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
)

// references are the parameters of filters that name things of the organization, by the prefix of their ids.
var referenced = map[string]string{"agentId": id.Agent, "keyId": id.Key, "runId": id.Run, "hookId": id.Hook, "endpointId": id.Endpoint}

// references refuses filters that name what the organization does not have.
func (a *api) references(c *gin.Context, found *httpx.Problems, names ...string) error {
	for _, name := range names {
		value := httpx.Query(c).Get(name)
		if value == "" {
			continue
		}
		known, err := a.Store.Known(c.Request.Context(), httpx.Caller(c).OrganizationID, referenced[name], value)
		if err != nil {
			return err
		}
		if !known {
			found.Add(name, httpx.CodeInvalidValue, "does not name anything of this organization")
		}
	}
	return nil
}

// documentsKnown refuses a list of documents some of which the organization does not have; old are those that need not be there any more.
func (a *api) documentsKnown(c *gin.Context, found *httpx.Problems, path string, ids, old []string) error {
	if len(ids) == 0 || found.Err() != nil {
		return nil //nolint:nilerr // the caller reports what was found
	}
	known, err := a.Store.KnownDocuments(c.Request.Context(), httpx.Caller(c).OrganizationID, ids)
	if err != nil {
		return err
	}
	for _, documentID := range old {
		known[documentID] = true
	}
	for i, documentID := range ids {
		if !known[documentID] {
			found.Add(element(path, i), httpx.CodeInvalidValue, "is no document of this organization")
		}
	}
	return nil
}

// toolDocuments checks the documents that a body binds an agent to, which may be those that it was bound to before.
func (a *api) toolDocuments(c *gin.Context, found *httpx.Problems, f *agentFields, before domain.Tools) error {
	ids := f.Tools.Value.Knowledge.Value.DocumentIDs.Value
	if ids == nil {
		return nil
	}
	var old []string
	if before.Knowledge != nil {
		old = before.Knowledge.DocumentIDs
	}
	return a.documentsKnown(c, found, "tools.knowledge.documentIds", *ids, old)
}

// asTarget names the target of run-automation when it is not found: a reference in a body.
func (s *submission) asTarget(err error) error {
	if s.endpoint == contract.EndpointAutomation && apierr.CodeOf(err) == apierr.NotFound {
		return apierr.Invalid("target", httpx.CodeInvalidValue, "is no agent of this organization")
	}
	return err
}
