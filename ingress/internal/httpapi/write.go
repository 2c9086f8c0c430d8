package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/id"
)

const contentJSON = "application/json"

// writeJSON answers with a value's JSON form.
func writeJSON(c *gin.Context, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		fail(c, fmt.Errorf("rendering response: %w", err))
		return
	}
	sendBody(c, status, body)
}

// deleted is the answer to every DELETE.
func deleted(id string) any {
	return struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}{id, true}
}

// page is the part of a list that was asked for.
type page struct {
	limit int
	after string // id of the last entry of the page before; empty for the first page
}

const (
	pageDefault = 20
	pageMost    = 100
	pageBytes   = 8<<20 - 1<<10 // of a page's entries: with what stands around them it has at most 8 MiB
)

// pageOf reads limit and cursor of a list of ids with the prefix.
func pageOf(c *gin.Context, prefix string) (page, error) {
	found := &problems{}
	p := page{limit: limitOf(c, found)}
	if text, given := single(c, "cursor", found); given {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		p.after = string(last)
		if err != nil || !id.Valid(prefix, p.after) {
			found.add("cursor", codeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.err()
}

// limitOf reads how many entries of a list are asked for.
func limitOf(c *gin.Context, found *problems) int {
	text, given := single(c, "limit", found)
	if !given {
		return pageDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > pageMost || strconv.Itoa(n) != text {
		found.add("limit", codeInvalidValue, "must be a whole number from 1 to %d", pageMost)
	}
	return n
}

// single gives a parameter of the query that may come once, and not empty.
func single(c *gin.Context, name string, found *problems) (value string, given bool) {
	values := query(c)[name]
	switch len(values) {
	case 0:
		return "", false
	case 1:
		if values[0] == "" {
			found.add(name, codeInvalidValue, "must not be empty")
		}
		return values[0], true
	}
	found.add(name, codeDuplicate, "may be given once")
	return "", false
}

// idOf gives the query's id. One that is malformed or of another kind is not_found, like a missing one.
func idOf(c *gin.Context, prefix string) (value string, given bool, err error) {
	found := &problems{}
	value, given = single(c, "id", found)
	if err := found.err(); err != nil {
		return "", false, err
	}
	if given && !id.Valid(prefix, value) {
		return "", true, apierr.New(apierr.NotFound, "no such resource")
	}
	return value, given, nil
}

// requiredID is idOf for requests that make no sense without.
func requiredID(c *gin.Context, prefix string) (string, error) {
	value, given, err := idOf(c, prefix)
	if err == nil && !given {
		return "", apierr.Invalid("id", codeRequired, "the query must name the id")
	}
	return value, err
}

// list is a page as it is shown.
type list[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"`
}

// listOf makes a page of up to limit+1 entries: the one too many says that there are more. The page ends earlier where its entries
// would have more than pageBytes.
func listOf[T any](entries []T, p page, idOf func(T) string) list[T] {
	out := list[T]{Data: entries}
	if out.Data == nil {
		out.Data = []T{}
	}
	if n := entriesThatFit(entries, p.limit); len(entries) > n {
		out.Data, out.HasMore = entries[:n], true
		cursor := base64.RawURLEncoding.EncodeToString([]byte(idOf(out.Data[n-1])))
		out.NextCursor = &cursor
	}
	return out
}

// entriesThatFit returns how many of the entries a page shows: up to limit, as far as they have pageBytes together, and at least one.
func entriesThatFit[T any](entries []T, limit int) int {
	limit = min(limit, len(entries))
	bytes := 0
	for i, entry := range entries[:limit] {
		body, err := json.Marshal(entry)
		if err != nil {
			return limit // the page cannot be rendered either
		}
		if bytes += len(body) + len(","); bytes > pageBytes && i > 0 {
			return i
		}
	}
	return limit
}
