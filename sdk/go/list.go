package parley

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// errNoID is the error for an empty id. A request with an empty id would read a list instead of an
// object. Methods therefore return errNoID and send no request.
var errNoID = errors.New("the id is empty")

// Page is a page of a list. The zero value is the end of a list.
type Page[T any] struct {
	// Entries of the page.
	Data []T `json:"data"`
	// Whether another page follows.
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"` // value for the field Cursor of the next query; nil on the last page
}

// Paging selects a page of a list. The zero value selects the first page.
type Paging struct {
	Limit  int    // entries per page; 0: the service's default
	Cursor string // the NextCursor of the previous page
}

// Pages is a list. The client requests a page when the first entry of the page is needed. Each loop
// reads the list from its start.
type Pages[T any] struct {
	read func(ctx context.Context, cursor string) (*Page[T], error)
	// Cursor of the first page.
	from string
}

// First returns the first page of the list. If the query has a cursor, it returns the page after
// the cursor.
func (p Pages[T]) First(ctx context.Context) (*Page[T], error) { return p.read(ctx, p.from) }

// All yields the entries of all pages. After an error the sequence ends. Entries that are added
// while the list is read may be missing.
func (p Pages[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := &p.from; cursor != nil; {
			page, err := p.read(ctx, *cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}

			// The caller may stop at any entry; then no further page is read.
			for _, entry := range page.Data {
				if !yield(entry, nil) {
					return
				}
			}

			cursor = page.NextCursor
		}
	}
}

// list returns the list at a path. The argument query is not changed, so the list can be read
// several times.
func list[T any](g group, path string, query url.Values, paging Paging) Pages[T] {
	read := func(ctx context.Context, cursor string) (*Page[T], error) {
		asked := maps.Clone(query)
		set(asked, "limit", number(paging.Limit))
		set(asked, "cursor", cursor)
		return get[Page[T]](ctx, g, path, asked)
	}
	return Pages[T]{read: read, from: paging.Cursor}
}

// get reads the object at a path. A 404 is an *APIError.
func get[T any](ctx context.Context, g group, path string, query url.Values) (*T, error) {
	return call[T](ctx, g, Request{Method: http.MethodGet, Path: path, Query: query})
}

// one reads the object with an id. The error is errNoID for an empty id.
func one[T any](ctx context.Context, g group, path, id string) (*T, error) {
	return act[T](ctx, g, Request{Method: http.MethodGet, Path: path}, id, "")
}

// act sends a request about the object with the given id. The argument action selects one of
// several operations that have the same path. act sets the parameters id and action in the
// request's query.
func act[T any](ctx context.Context, g group, request Request, id, action string) (*T, error) {
	if id == "" {
		return nil, errNoID
	}
	if request.Query == nil {
		request.Query = url.Values{}
	}
	request.Query.Set("id", id)
	set(request.Query, "action", action)
	return call[T](ctx, g, request)
}

// remove deletes the object with an id. If the response was lost and a retry reports that the
// object does not exist, remove succeeds, because the first request has deleted it. The argument
// query may be nil.
func remove(ctx context.Context, g group, path, id string, query url.Values) error {
	lost := false
	request := Request{Method: http.MethodDelete, Path: path, Query: query, Keyed: true, lost: func() { lost = true }}

	_, err := act[Deleted](ctx, g, request, id, "")

	if refused, is := errors.AsType[*APIError](err); is && lost && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// call sends a request and decodes the response. It returns errors of Client.Call and of decoding
// the response.
func call[T any](ctx context.Context, g group, request Request) (*T, error) {
	response, err := g.client.Call(ctx, request)
	if err != nil {
		return nil, err
	}
	into := new(T)
	if err := response.Into(into); err != nil {
		return nil, err
	}
	return into, nil
}

// params returns query parameters from names and values. Empty values are omitted. The number of
// arguments must be even.
func params(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		set(query, pairs[i], pairs[i+1])
	}
	return query
}

// set sets a parameter, or removes it if the value is empty. It changes query.
func set(query url.Values, name, value string) {
	query.Del(name)
	if value != "" {
		query.Set(name, value)
	}
}

// number formats a query parameter. It formats zero as "", which omits the parameter. Zero is never
// a valid value of these parameters.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
