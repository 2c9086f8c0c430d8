package httpx

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
)

// KnownIDs reports which ids exist in an organization.
type KnownIDs interface {
	// Known reports whether thing is the id of an existing resource of the organization. The prefix
	// of the id determines the kind of resource.
	Known(ctx context.Context, organizationID, prefix, thing string) (bool, error)
	// KnownDocuments returns the set of the given document ids that exist in the organization.
	KnownDocuments(ctx context.Context, organizationID string, ids []string) (map[string]bool, error)
}

// References checks that the ids in filters and bodies belong to existing resources. It is safe for
// concurrent use.
type References struct{ store KnownIDs }

// NewReferences returns References that look ids up in store.
func NewReferences(store KnownIDs) *References { return &References{store} }

// idPrefixes maps filter parameters that contain an id to the prefix of this id.
var idPrefixes = map[string]string{"agentId": id.Agent, "keyId": id.Key, "runId": id.Run, "hookId": id.Hook, "endpointId": id.Endpoint}

// CheckReferences adds a problem for each of the named query parameters whose value is not the id
// of a resource of the organization. names must be keys of idPrefixes. The returned error is an
// error of the database, not a problem of the request.
func (r *References) CheckReferences(c *gin.Context, found *Problems, names ...string) error {
	for _, name := range names {
		value := Query(c).Get(name)
		if value == "" {
			continue
		}
		known, err := r.store.Known(c.Request.Context(), Caller(c).OrganizationID, idPrefixes[name], value)
		if err != nil {
			return err
		}
		if !known {
			found.Add(name, CodeInvalidValue, "does not exist in this organization")
		}
	}

	return nil
}

// CheckDocuments adds a problem for each id of a document that does not exist in the organization.
// The ids in the argument old are always accepted. path is the path of the list ids in the body.
// All ids are looked up with one statement. If found already has problems, CheckDocuments does
// nothing.
func (r *References) CheckDocuments(c *gin.Context, found *Problems, path string, ids, old []string) error {
	if len(ids) == 0 || found.Err() != nil {
		return nil //nolint:nilerr // the caller reports the problems already found
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
