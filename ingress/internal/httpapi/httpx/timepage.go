package httpx

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/id"
	"parley/shared/store/accountdb"
)

// TimePage is the part that was asked for of a list whose order is by time, not by id.
type TimePage struct {
	Limit int
	After accountdb.After
}

// ReadTimePage reads limit and cursor of a list of ids with one of the prefixes.
func ReadTimePage(c *gin.Context, prefixes ...string) (TimePage, error) {
	found := &Problems{}
	p := TimePage{Limit: ReadLimit(c, found)}
	if text, given := QueryValue(c, "cursor", found); given {
		var ok bool
		if p.After, ok = readAfter(text, prefixes); !ok {
			found.Add("cursor", CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.Err()
}

// readAfter reads a cursor: microseconds, a dot and an id, as base64.
func readAfter(cursor string, prefixes []string) (accountdb.After, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return accountdb.After{}, false
	}
	at, last, _ := strings.Cut(string(raw), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	known := slices.ContainsFunc(prefixes, func(prefix string) bool { return id.Valid(prefix, last) })
	if err != nil || !known || micros < 0 || micros > maxMicros || strconv.FormatInt(micros, 10) != at {
		return accountdb.After{}, false
	}
	return accountdb.After{At: time.UnixMicro(micros), ID: last}, true
}

const maxMicros = 1 << 52 // the year 2112: what PostgreSQL certainly takes

// NewTimeList makes a page of up to limit+1 entries, as listOf does; show gives an entry's form and its place.
func NewTimeList[T, V any](entries []T, p TimePage, show func(T) (V, accountdb.After)) List[V] {
	out := List[V]{Data: make([]V, len(entries))}
	places := make([]accountdb.After, len(entries))
	for i, entry := range entries {
		out.Data[i], places[i] = show(entry)
	}
	n := EntriesThatFit(out.Data, p.Limit)
	out.HasMore = len(entries) > n
	out.Data = out.Data[:n]
	if out.HasMore {
		last := places[n-1]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.At.UnixMicro(), 10) + "." + last.ID))
		out.NextCursor = &cursor
	}
	return out
}
