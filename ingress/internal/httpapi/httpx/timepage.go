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

// TimePage is the requested part of a list that is ordered by time.
type TimePage struct {
	// Number of entries, from 1 to MaxPage.
	Limit int
	// Position of the previous page's last entry; zero: the first page.
	After accountdb.After
}

// ReadTimePage reads the query's limit and cursor for a list of resources whose ids have one of the
// prefixes. The error lists all problems of the two parameters.
func ReadTimePage(c *gin.Context, prefixes ...string) (TimePage, error) {
	found := &Problems{}
	p := TimePage{Limit: ReadLimit(c, found)}
	if text, present := QueryValue(c, "cursor", found); present {
		var ok bool
		if p.After, ok = readAfter(text, prefixes); !ok {
			found.Add("cursor", CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.Err()
}

// readAfter decodes a cursor. A cursor is the base64 form of microseconds since 1970, a dot and an
// id. The time must be in its canonical form, so that each position has one cursor.
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

const maxMicros = 1 << 52 // the year 2112, within PostgreSQL's range

// NewTimeList returns a page of up to p.Limit entries, as NewList does. show returns an entry in
// the form of responses, and the position of the entry for a cursor.
func NewTimeList[T, V any](entries []T, p TimePage, show func(T) (V, accountdb.After)) List[V] {
	out := List[V]{Data: make([]V, len(entries))}
	cursors := make([]accountdb.After, len(entries))
	for i, entry := range entries {
		out.Data[i], cursors[i] = show(entry)
	}

	n := EntriesThatFit(out.Data, p.Limit)
	out.HasMore = len(entries) > n
	out.Data = out.Data[:n]
	if out.HasMore {
		last := cursors[n-1]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.At.UnixMicro(), 10) + "." + last.ID))
		out.NextCursor = &cursor
	}

	return out
}
