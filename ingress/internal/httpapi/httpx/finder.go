package httpx

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
)

// Finder looks up the resource named by the query's id. It returns not_found if the caller may not
// read the resource. It is called before a request is rejected because of its parameters or body.
// Therefore only callers who may read the resource get such an error.
type Finder func(c *gin.Context) error

// getter reads a resource by its id.
type getter[T any] func(c *gin.Context, thing string) (T, error)

// OnlyError returns a function that calls read and returns only its error.
func OnlyError[T any](read getter[T]) func(*gin.Context, string) error {
	return func(c *gin.Context, thing string) error { _, err := read(c, thing); return err }
}

// ReadOne returns the handler for GET requests with an id: it responds with the resource that read
// returns.
func ReadOne[T any](read getter[T], prefixes ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		var thing T
		err := ByID(func(c *gin.Context, named string) (err error) { thing, err = read(c, named); return err }, prefixes...)(c)
		if err != nil {
			Fail(c, err)
			return
		}
		WriteJSON(c, http.StatusOK, thing)
	}
}

// ByID returns a Finder that calls find with the query's id. If the id has none of the prefixes,
// the Finder returns not_found. Without prefixes, any text is an id. If the query has no id or
// several ids, the Finder returns nil.
func ByID(find func(c *gin.Context, thing string) error, prefixes ...string) Finder {
	return func(c *gin.Context) error {
		ids := Query(c)["id"]
		if len(ids) != 1 || ids[0] == "" {
			return nil
		}
		if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(prefix string) bool { return id.Valid(prefix, ids[0]) }) ||
			!IsText(ids[0]) {
			return NotFound()
		}
		return find(c, ids[0])
	}
}

// InOrganization returns a Finder for resources that every member of the organization may read.
func InOrganization[T any](read func(context.Context, string, string) (T, error), prefixes ...string) Finder {
	return ByID(func(c *gin.Context, thing string) error {
		_, err := read(c.Request.Context(), Caller(c).OrganizationID, thing)
		return err
	}, prefixes...)
}
