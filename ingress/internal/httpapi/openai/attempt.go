package openai

import (
	"crypto/sha256"
	"io"
	"strconv"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/readers"
	"parley/shared/contract"
)

// headerRetryCount is the header in which OpenAI's clients count the retries of a request.
const headerRetryCount = "X-Stainless-Retry-Count"

// rules returns the rules for package readers if the client gets the whole response at once. A
// client that disconnects earlier has seen no part of the answer.
func rules(s *dispatch.Submission) readers.Rules {
	return readers.Rules{Keep: s.Key != "", Grace: readers.Grace, Attempt: s.Attempt}
}

// hashBody makes the request's body hash itself while it is read. When the body has been read,
// attempt returns a hash of the request and the number of the retry. If the client does not count
// its retries, attempt returns the zero value.
func hashBody(c *gin.Context) (attempt func() readers.Attempt) {
	number, err := strconv.Atoi(c.GetHeader(headerRetryCount))
	if err != nil || number < 0 || c.Request.Body == nil {
		return func() readers.Attempt { return readers.Attempt{} }
	}

	sum, body := sha256.New(), c.Request.Body
	c.Request.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, sum), body}
	return func() readers.Attempt {
		who := httpx.Caller(c)
		request := contract.Hash(who.OrganizationID, who.Principal(), who.KeyID, c.Request.URL.Path, string(sum.Sum(nil)))
		return readers.Attempt{Request: string(request), Number: number}
	}
}
