package pages

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/web"
)

// Serve responds with an asset, compressed if the client accepts gzip. age is the value of
// Cache-Control. A client that has the asset already gets 304.
func Serve(c *gin.Context, found web.Asset, age string) {
	header := c.Writer.Header()
	header.Set("Cache-Control", age)
	header.Set("ETag", found.ETag)
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", found.Type)

	if matches(c.Request.Header.Values("If-None-Match"), found.ETag) {
		c.Status(http.StatusNotModified)
		return
	}

	// Assets are compressed once per process, not for each request.
	body := found.Body
	if acceptsGzip(c.Request.Header) {
		header.Set("Content-Encoding", "gzip")
		body = found.Gzip
	}

	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.Data(http.StatusOK, found.Type, body)
}

// acceptsGzip reports whether a client accepts gzip. It reads the header Accept-Encoding (RFC
// 9110). A wildcard does not count.
func acceptsGzip(header http.Header) bool {
	for _, line := range header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			coding, parameters, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				continue
			}

			// The weight 0 means that the client does not accept gzip.
			name, weight, _ := strings.Cut(strings.TrimSpace(parameters), "=")
			quality, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
			return !strings.EqualFold(strings.TrimSpace(name), "q") || err == nil && quality > 0
		}
	}

	return false
}

// matches reports whether a list of entity tags contains etag or *. The comparison ignores the
// prefix W/ of weak tags (RFC 9110). lists are the values of the header If-None-Match.
func matches(lists []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
