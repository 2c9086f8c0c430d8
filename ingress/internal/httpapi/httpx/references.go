package httpx

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
)

// KnownIDs reports which ids name things of an organization.
type KnownIDs interface {
	Known(ctx context.Context, organizationID, prefix, thing string) (bool, error)
	KnownDocuments(ctx context.Context, organizationID string, ids []string) (map[string]bool, error)
}

// References checks what filters and bodies name beside the thing that they are about.
type References struct{ store KnownIDs }

// NewReferences makes a check of what a store knows.
func NewReferences(store KnownIDs) *References { return &References{store} }

// referenced are the parameters of filters that name things of the organization, by the prefix of their ids.
var referenced = map[string]string{"agentId": id.Agent, "keyId": id.Key, "runId": id.Run, "hookId": id.Hook, "endpointId": id.Endpoint}

// CheckReferences refuses filters that name what the organization does not have.
func (r *References) CheckReferences(c *gin.Context, found *Problems, names ...string) error {
	for _, name := range names {
		value := Query(c).Get(name)
		if value == "" {
			continue
		}
		known, err := r.store.Known(c.Request.Context(), Caller(c).OrganizationID, referenced[name], value)
		if err != nil {
			return err
		}
		if !known {
			found.Add(name, CodeInvalidValue, "does not exist in this organization")
		}
	}
	return nil
}

// CheckDocuments refuses a list of documents some of which the organization does not have; old are those that need not be there any more.
func (r *References) CheckDocuments(c *gin.Context, found *Problems, path string, ids, old []string) error {
	if len(ids) == 0 || found.Err() != nil {
		return nil //nolint:nilerr // the caller reports what was found
	}
	known, err := r.store.KnownDocuments(c.Request.Context(), Caller(c).OrganizationID, ids)
	if err != nil {
		return err
	}
	for _, documentID := range old {
		known[documentID] = true
	}
	for i, documentID := range ids {
		if !known[documentID] {
			found.Add(Element(path, i), CodeInvalidValue, "is not a document of this organization")
		}
	}
	return nil
}
