package httpx

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

// etags matches a list of entity tags (RFC 9110, section 8.8.3).
var etags = regexp.MustCompile(`^[ \t,]*(W/)?"[\x21\x23-\x7e\x80-\xff]*"([ \t]*,[ \t,]*(W/)?"[\x21\x23-\x7e\x80-\xff]*")*[ \t,]*$`)

// Precondition contains the entity tags of a request's If-Match and If-None-Match headers. A nil
// list means that the header is missing.
type Precondition struct{ match, noneMatch []string }

// anyVersion is the header value that matches every version.
const anyVersion = "*"

// ReadPrecondition reads the headers of a conditional request. A malformed If-Match is an error,
// because the caller relies on the condition. A malformed If-None-Match matches nothing.
func ReadPrecondition(header http.Header) (p Precondition, err error) {
	p.match, err = tags(header, "If-Match")
	if err != nil {
		return p, err
	}
	p.noneMatch, _ = tags(header, "If-None-Match")
	for i, tag := range p.noneMatch {
		p.noneMatch[i] = strings.TrimPrefix(tag, "W/") // If-None-Match compares weakly
	}
	return p, nil
}

// tags reads a header that lists entity tags. It returns nil if the header is missing.
func tags(header http.Header, name string) ([]string, error) {
	if len(header.Values(name)) == 0 {
		return nil, nil
	}

	list := strings.Trim(strings.Join(header.Values(name), ","), " \t")
	switch {
	case list == anyVersion:
		return []string{anyVersion}, nil
	case !etags.MatchString(list):
		return nil, apierr.Invalid(name, CodeInvalidValue, `must be * or entity tags, such as "3"`)
	}

	return SplitQuoted(list, ','), nil
}

// etag returns the strong entity tag of a version and its state. The state may be empty.
func etag(version int, state string) string {
	if state != "" {
		state = stateSeparator + state
	}
	return `"` + strconv.Itoa(version) + state + `"`
}

// stateSeparator separates the version from the state in an entity tag.
const stateSeparator = "-"

// Check returns precondition_failed if the headers exclude the current version. The state in an
// entity tag is ignored. If-Match compares strongly: a weak tag matches no version.
func (p Precondition) Check(version int) error {
	if p.match != nil && !names(p.match, version) {
		return apierr.New(apierr.PreconditionFailed, "the version is %d, which does not match If-Match; read it again", version)
	}
	if names(p.noneMatch, version) {
		return apierr.New(apierr.PreconditionFailed, "the version is %d, which If-None-Match excludes", version)
	}
	return nil
}

// names reports whether a list of entity tags contains a version, with any state.
func names(tags []string, version int) bool {
	bare := etag(version, "")
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == anyVersion || tag == bare || strings.HasPrefix(tag, strings.TrimSuffix(bare, `"`)+stateSeparator)
	})
}

// RefuseMatch rejects a request with If-Match entity tags for a resource that has no versions.
func RefuseMatch(header http.Header) error {
	condition, err := ReadPrecondition(header)
	if err != nil || condition.match == nil || slices.Contains(condition.match, anyVersion) {
		return err
	}
	return apierr.New(apierr.PreconditionFailed, "this resource has no version; omit If-Match")
}

// WriteVersion responds with a versioned value and its ETag. A GET or HEAD request gets 304 if its
// If-None-Match contains the ETag. If parts of the value change without a new version, state
// identifies their current state and becomes part of the ETag. Otherwise state is empty. If-Match
// ignores the state.
func WriteVersion(c *gin.Context, status, version int, state string, value any) {
	header, tag := c.Writer.Header(), etag(version, state)
	if c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		condition, err := ReadPrecondition(c.Request.Header)
		if err == nil {
			// A matching If-None-Match of a read results in 304 and not in an error. Therefore
			// Check gets only If-Match.
			known := slices.Contains(condition.noneMatch, anyVersion) || slices.Contains(condition.noneMatch, tag)
			condition.noneMatch = nil
			err = condition.Check(version)
			if err == nil && known {
				header["Etag"] = []string{tag}
				c.Status(http.StatusNotModified)
				c.Writer.WriteHeaderNow()
				return
			}
		}
		if err != nil {
			Fail(c, err)
			return
		}
	}

	header["Etag"] = []string{tag}
	WriteJSON(c, status, value)
}
