package httpx

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/id"
)

// ContentJSON is the media type of JSON.
const ContentJSON = "application/json"

// WriteJSON responds with the JSON form of a value. If the value has no JSON form, the response is
// the error internal.
func WriteJSON(c *gin.Context, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		Fail(c, fmt.Errorf("rendering response: %w", err))
		return
	}
	SendBody(c, status, body)
}

// JSON calls WriteJSON and returns nil. Handlers that return an error call it in their last
// statement.
func JSON(c *gin.Context, status int, value any) error {
	WriteJSON(c, status, value)
	return nil
}

// Deleted returns the body of the response to a DELETE request.
func Deleted(id string) any {
	return struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}{id, true}
}

// Page is the requested part of a list. Limit is from 1 to MaxPage.
type Page struct {
	Limit int
	After string // id of the previous page's last entry; empty for the first page
}

const (
	pageDefault = 20
	// MaxPage is the maximum number of entries of a page.
	MaxPage = 100
	// PageBytes is the maximum total size of a page's entries, chosen so that the whole page is at
	// most 1 MiB. A page with a single entry may be larger.
	PageBytes = 1<<20 - 1<<10
)

// ReadPage reads the query's limit and cursor for a list of resources whose ids have the prefix.
func ReadPage(c *gin.Context, prefix string) (Page, error) {
	found := &Problems{}
	p := Page{Limit: ReadLimit(c, found)}

	if text, present := QueryValue(c, "cursor", found); present {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		p.After = string(last)
		if err != nil || !id.Valid(prefix, p.After) {
			found.Add("cursor", CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.Err()
}

// ReadLimit returns the limit parameter, which is the requested number of entries, or pageDefault
// if the parameter is missing.
func ReadLimit(c *gin.Context, found *Problems) int {
	text, present := QueryValue(c, "limit", found)
	if !present {
		return pageDefault
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPage || strconv.Itoa(n) != text {
		found.Add("limit", CodeInvalidValue, "must be a whole number from 1 to %d", MaxPage)
	}
	return n
}

// QueryValue returns the value of a query parameter. present is false if the parameter is missing.
// If the parameter is empty or repeated, QueryValue adds a problem to found.
func QueryValue(c *gin.Context, name string, found *Problems) (value string, present bool) {
	values := Query(c)[name]
	switch len(values) {
	case 0:
		return "", false
	case 1:
		if values[0] == "" {
			found.Add(name, CodeInvalidValue, "must not be empty")
		}
		return values[0], true
	}

	found.Add(name, CodeDuplicate, "must be given only once")
	return "", false
}

// QueryID returns the query's id parameter. For an id that is malformed or has another prefix, it
// returns the error not_found, as for a resource that does not exist.
func QueryID(c *gin.Context, prefix string) (value string, present bool, err error) {
	found := &Problems{}
	value, present = QueryValue(c, "id", found)
	if err := found.Err(); err != nil {
		return "", false, err
	}
	if present && !id.Valid(prefix, value) {
		return "", true, apierr.Missing()
	}
	return value, present, nil
}

// RequiredID is QueryID for requests that require an id.
func RequiredID(c *gin.Context, prefix string) (string, error) {
	value, present, err := QueryID(c, prefix)
	if err == nil && !present {
		return "", apierr.Invalid("id", CodeRequired, "is required in the query")
	}
	return value, err
}

// List is a page of a list in a response. Data is never null. NextCursor is null on the last page.
type List[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"`
}

// NewList returns a page with the first entries: as many as fit into PageBytes, and at most
// p.Limit. If further entries exist, the caller must pass at least one entry more than p.Limit.
func NewList[T any](entries []T, p Page, entryID func(T) string) List[T] {
	out := List[T]{Data: entries}
	if out.Data == nil {
		out.Data = []T{}
	}
	if n := EntriesThatFit(entries, p.Limit); len(entries) > n {
		out.Data, out.HasMore = entries[:n], true
		out.NextCursor = new(Cursor(entryID(out.Data[n-1])))
	}
	return out
}

// Cursor returns the cursor of the page that follows the entry with the id.
func Cursor(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// ReservePage limits the size of a page before its entries are read. sizes contains the sizes of up
// to p.Limit+1 entries. ReservePage lowers p.Limit to the number of entries that fit into
// PageBytes, but not below 1. If the page is a large response, ReservePage waits for a reservation;
// see ReserveAnswer.
func ReservePage(c *gin.Context, sizes []int, p *Page) error {
	read := 0
	for i, size := range sizes[:min(p.Limit+1, len(sizes))] {
		if read += size; read > PageBytes && i > 0 {
			p.Limit = min(i, p.Limit)
			break
		}
	}
	return ReserveAnswer(c, read)
}

// EntriesThatFit returns how many of the entries a page contains: as many as fit into PageBytes of
// JSON and at most limit, but at least one.
func EntriesThatFit[T any](entries []T, limit int) int {
	limit = min(limit, len(entries))
	bytes := 0
	for i, entry := range entries[:limit] {
		body, err := json.Marshal(entry)
		if err != nil {
			return limit // WriteJSON will report that the value has no JSON form
		}
		if bytes += len(body) + len(","); bytes > PageBytes && i > 0 {
			return i
		}
	}

	return limit
}
