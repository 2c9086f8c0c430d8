package httpx

import (
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
)

// Finder looks up what the id of a query names: not_found unless the caller may read it. It runs when a request is refused
// for its parameters or body: only a caller who may read the thing learns what else is wrong.
type Finder func(c *gin.Context) error

// getter reads a thing by its id.
type getter[T any] func(c *gin.Context, thing string) (T, error)

// OnlyError is a getter of which only the error counts.
func OnlyError[T any](read getter[T]) func(*gin.Context, string) error {
	return func(c *gin.Context, thing string) error { _, err := read(c, thing); return err }
}

// ReadOne makes the handler of GET ?id= of a collection.
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

// ByID makes the finder of things whose id has one of the prefixes; without prefixes an id is any text.
func ByID(find func(c *gin.Context, thing string) error, prefixes ...string) Finder {
	return func(c *gin.Context) error {
		given := Query(c)["id"]
		if len(given) != 1 || given[0] == "" {
			return nil
		}
		if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(prefix string) bool { return id.Valid(prefix, given[0]) }) ||
			!IsText(given[0]) {
			return NotFound()
		}
		return find(c, given[0])
	}
}

// InOrganization makes the finder of things that everybody in the organization may read.
func InOrganization[T any](read func(context.Context, string, string) (T, error), prefixes ...string) Finder {
	return ByID(func(c *gin.Context, thing string) error {
		_, err := read(c.Request.Context(), Caller(c).OrganizationID, thing)
		return err
	}, prefixes...)
}
