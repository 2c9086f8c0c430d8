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

// Precondition contains the entity tags in a request's If-Match and If-None-Match headers. A list
// is nil if its header is missing. ReadPrecondition creates a Precondition.
type Precondition struct{ match, noneMatch []string }

// anyVersion is the header value that matches every version.
const anyVersion = "*"

// ReadPrecondition reads the headers of a conditional request. A malformed If-Match is an error,
// because the caller wants no change without a match. A malformed If-None-Match is ignored.
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

// tags returns the entity tags in a header, or nil if the header is missing.
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

// etag returns the strong entity tag for a version and a state; see WriteVersion. The state may be
// empty.
func etag(version int, state string) string {
	if state != "" {
		state = stateSeparator + state
	}
	return `"` + strconv.Itoa(version) + state + `"`
}

// stateSeparator separates the version from the state in an entity tag.
const stateSeparator = "-"

// Check returns the error precondition_failed if the headers do not permit a change of the current
// version. It ignores the states in entity tags. If-Match compares strongly, so a weak tag in
// If-Match matches no version.
func (p Precondition) Check(version int) error {
	if p.match != nil && !names(p.match, version) {
		return apierr.New(apierr.PreconditionFailed, "the version is %d, which does not match If-Match; read the resource again", version)
	}
	if names(p.noneMatch, version) {
		return apierr.New(apierr.PreconditionFailed, "the version is %d, which If-None-Match excludes", version)
	}
	return nil
}

// names reports whether a list of entity tags contains a tag of the version, with any state.
func names(tags []string, version int) bool {
	bare := etag(version, "")
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == anyVersion || tag == bare || strings.HasPrefix(tag, strings.TrimSuffix(bare, `"`)+stateSeparator)
	})
}

// RefuseMatch returns an error if a request for a resource without versions has entity tags in
// If-Match.
func RefuseMatch(header http.Header) error {
	condition, err := ReadPrecondition(header)
	if err != nil || condition.match == nil || slices.Contains(condition.match, anyVersion) {
		return err
	}
	return apierr.New(apierr.PreconditionFailed, "this resource has no version; omit If-Match")
}

// WriteVersion responds with a versioned value and its ETag. The response to GET and HEAD is 304 if
// If-None-Match contains the ETag. If parts of the value can change without a new version, state
// identifies the current state of these parts and becomes part of the ETag. Otherwise state is
// empty. If-Match ignores the state.
func WriteVersion(c *gin.Context, status, version int, state string, value any) {
	header, tag := c.Writer.Header(), etag(version, state)
	if c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		condition, err := ReadPrecondition(c.Request.Header)
		if err == nil {
			// For a read, a match with If-None-Match results in 304 and not in an error, so Check
			// gets only If-Match.
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
