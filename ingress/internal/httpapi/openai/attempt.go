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

// headerRetryCount is the header in which OpenAI's clients count the retries of a request. The
// first request has the number 0.
const headerRetryCount = "X-Stainless-Retry-Count"

// rules returns the rules for package readers for a client that gets the whole response at once. A
// client that disconnects earlier has seen no part of the answer. s.Attempt must be set. A run with
// an idempotency key continues without a reader, because a retry with the key gets the run's
// answer.
func rules(s *dispatch.Submission) readers.Rules {
	return readers.Rules{Keep: s.Key != "", Grace: readers.Grace, Attempt: s.Attempt}
}

// hashBody makes the request's body hash itself while it is read. When the body has been read,
// attempt returns a hash of the request and the number of the retry. If the client does not count
// its retries, attempt returns the zero value. hashBody must be called before the body is read, and
// attempt must be called afterwards. Two requests of the same caller with the same body and path
// have the same hash. A retry is therefore recognized even without an idempotency key.
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
