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

// WriteJSON answers with a value's JSON form.
func WriteJSON(c *gin.Context, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		Fail(c, fmt.Errorf("rendering response: %w", err))
		return
	}
	SendBody(c, status, body)
}

// Deleted is the answer to every DELETE.
func Deleted(id string) any {
	return struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}{id, true}
}

// Page is the part of a list that was asked for.
type Page struct {
	Limit int
	After string // id of the last entry of the page before; empty for the first page
}

const (
	pageDefault = 20
	// MaxPage is how many entries a page may have.
	MaxPage = 100
	// PageBytes is how many bytes the entries of a page may have together: with what stands around them, a page has at most 1 MiB.
	// A single entry may have more.
	PageBytes = 1<<20 - 1<<10
)

// ReadPage reads limit and cursor of a list of ids with the prefix.
func ReadPage(c *gin.Context, prefix string) (Page, error) {
	found := &Problems{}
	p := Page{Limit: ReadLimit(c, found)}
	if text, given := QueryValue(c, "cursor", found); given {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		p.After = string(last)
		if err != nil || !id.Valid(prefix, p.After) {
			found.Add("cursor", CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.Err()
}

// ReadLimit reads how many entries of a list are asked for.
func ReadLimit(c *gin.Context, found *Problems) int {
	text, given := QueryValue(c, "limit", found)
	if !given {
		return pageDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPage || strconv.Itoa(n) != text {
		found.Add("limit", CodeInvalidValue, "must be a whole number from 1 to %d", MaxPage)
	}
	return n
}

// QueryValue gives a parameter of the query that may come once, and not empty.
func QueryValue(c *gin.Context, name string, found *Problems) (value string, given bool) {
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

// QueryID gives the query's id. One that is malformed or of another kind is not_found, like a missing one.
func QueryID(c *gin.Context, prefix string) (value string, given bool, err error) {
	found := &Problems{}
	value, given = QueryValue(c, "id", found)
	if err := found.Err(); err != nil {
		return "", false, err
	}
	if given && !id.Valid(prefix, value) {
		return "", true, apierr.New(apierr.NotFound, "no such resource")
	}
	return value, given, nil
}

// RequiredID is idOf for requests that make no sense without.
func RequiredID(c *gin.Context, prefix string) (string, error) {
	value, given, err := QueryID(c, prefix)
	if err == nil && !given {
		return "", apierr.Invalid("id", CodeRequired, "is required in the query")
	}
	return value, err
}

// List is a page as it is shown.
type List[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"`
}

// NewList makes a page of up to limit+1 entries: the one too many says that there are more. The page ends earlier where its entries
// would have more than pageBytes.
func NewList[T any](entries []T, p Page, idOf func(T) string) List[T] {
	out := List[T]{Data: entries}
	if out.Data == nil {
		out.Data = []T{}
	}
	if n := EntriesThatFit(entries, p.Limit); len(entries) > n {
		out.Data, out.HasMore = entries[:n], true
		cursor := base64.RawURLEncoding.EncodeToString([]byte(idOf(out.Data[n-1])))
		out.NextCursor = &cursor
	}
	return out
}

// ReservePage bounds a page by the sizes of up to limit+1 entries, before they are read: its limit becomes the number of those that have
// PageBytes together, at least one. If that page and the entry after it are a large answer, it waits until they may be read.
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

// EntriesThatFit returns how many of the entries a page shows: up to limit, as far as they have pageBytes together, and at least one.
func EntriesThatFit[T any](entries []T, limit int) int {
	limit = min(limit, len(entries))
	bytes := 0
	for i, entry := range entries[:limit] {
		body, err := json.Marshal(entry)
		if err != nil {
			return limit // the page cannot be rendered either
		}
		if bytes += len(body) + len(","); bytes > PageBytes && i > 0 {
			return i
		}
	}
	return limit
}
