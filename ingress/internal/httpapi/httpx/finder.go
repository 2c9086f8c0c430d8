package httpx

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
)

// Finder looks up the resource named by the query's id. It returns not_found if the caller may not
// read the resource. It runs before a request is rejected because of its parameters or body, so
// that only callers who may read the resource see these errors.
type Finder func(c *gin.Context) error

// getter reads a resource by its id.
type getter[T any] func(c *gin.Context, thing string) (T, error)

// OnlyError returns a function that calls read and discards its value.
func OnlyError[T any](read getter[T]) func(*gin.Context, string) error {
	return func(c *gin.Context, thing string) error { _, err := read(c, thing); return err }
}

// ReadOne returns the handler of GET ?id= for a collection.
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

// ByID returns a Finder for ids with one of the prefixes. Without prefixes, any text is accepted as
// an id. For an id with another prefix, the finder returns not_found. If the query has no id or
// several, the finder does nothing.
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
