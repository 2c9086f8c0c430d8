package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/store/budgetdb"
	"parley/shared/telemetry/tracing"
)

const (
	embedTime  = 60 * time.Second // time limit for one call to a worker
	embedTotal = 5 * time.Minute  // time limit for all calls of a request
	// Retry-After if a worker cannot embed now.
	embedRetry     = 2 * time.Second
	embedTexts     = 40        // maximum texts per call; for most models, their vectors fit into one reply
	embedCharacter = 100_000   // maximum characters per call
	maxEmbeddings  = 128 << 20 // maximum bytes of a response
)

// WorkerCaller calls a worker over NATS and returns its reply. Call returns bus.ErrNoToolWorker if
// no worker accepted the call. capability contains the signed claims.
type WorkerCaller interface {
	Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error)
}

// ClaimSigner signs claims together with the body to which they belong. Workers verify the
// signature before they act for the organization in the claims.
type ClaimSigner interface {
	Sign(claims, body []byte) string
}

// createEmbeddings handles POST /v1/embeddings: it returns vectors of texts from the service's
// embedding model. The texts are not stored. The request counts against the rate limit and the
// budgets of the caller.
func (h *Handler) createEmbeddings(c *gin.Context) {
	body, found, err := httpx.CollectOpen[openaiapi.EmbeddingRequest](c, httpx.MaxMessageBody)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	texts := body.Texts(found.Add)
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	// The request takes the slots of a stream, because it may keep its connection open for minutes.
	seats, err := h.TakeStreams(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(embedTotal + httpx.WriteTime)) // fails only for test recorders

	e := embedding{Handler: h, c: c, request: &body}
	if err := e.embed(texts); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}

	// The vectors are encoded here, because their format is the client's choice.
	httpx.SendBody(c, http.StatusOK, body.Embeddings(e.model, e.vectors, e.tokens))
}

// embedding is a request in progress. It is used by one goroutine. Its results are complete when
// embed has returned nil.
type embedding struct {
	*Handler

	c *gin.Context
	// Request as parsed.
	request *openaiapi.EmbeddingRequest
	// Name of the model, from the replies.
	model string
	// Vectors of the texts embedded so far, each as 32-bit floating-point numbers.
	vectors [][]byte
	// Number of tokens of these texts.
	tokens int64
}

// embed stores the vectors of the texts, the model and the number of tokens in e. It sends the
// texts to workers in one or several calls, one after another. After an error, no response is
// possible, but the tokens of successful calls have been consumed.
func (e *embedding) embed(texts []string) error {
	ctx, cancel := context.WithTimeout(e.c.Request.Context(), embedTotal)
	defer cancel()
	for len(e.vectors) < len(texts) {
		rest := texts[len(e.vectors):]
		reply, err := e.call(ctx, rest[:countFitting(rest)])
		if err != nil {
			return err
		}

		// Only the first reply shows how large the vectors, and therefore the response, will be.
		if e.vectors == nil {
			if err := e.reserve(len(texts), len(reply.Vectors[0])); err != nil {
				return err
			}
		}

		// A reply may contain fewer vectors than texts; the remaining texts are sent again.
		e.model, e.vectors, e.tokens = reply.Model, append(e.vectors, reply.Vectors...), e.tokens+reply.InputTokens
	}
	return nil
}

// reserve waits until memory for the response is free, and reserves it. The argument vectors is the
// number of vectors, and bytes is the size of one vector. The error is an error of
// httpx.ReserveFunc, or too_long if the response would exceed maxEmbeddings.
func (e *embedding) reserve(vectors, bytes int) error {
	size := e.request.ResponseBytes(vectors, bytes)
	if size > maxEmbeddings {
		return apierr.Invalid("input", httpx.CodeTooLong, "%d vectors of %d numbers are too large for a response: send fewer texts, "+
			"or set encoding_format to base64", vectors, bytes/4)
	}
	return httpx.ReserveFunc(e.c)(size)
}

// countFitting returns the number of texts, from the first on, that fit into one call. texts must
// not be empty. The result is at least 1, so a single text that exceeds the limit is sent alone.
func countFitting(texts []string) int {
	room := embedCharacter
	for n, text := range texts {
		if room -= utf8.RuneCountInString(text); n == embedTexts || room < 0 {
			return max(n, 1)
		}
	}
	return len(texts)
}

// call lets a worker embed texts. The reply contains vectors for the first texts, at least one. The
// call ends after embedTime at the latest. The claims expire at the same time.
func (e *embedding) call(ctx context.Context, texts []string) (reply contract.EmbedReply, err error) {
	who, deadline := httpx.Caller(e.c), time.Now().Add(embedTime)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // escaped for HTML, texts with markup would be several times as long
	if err := encoder.Encode(contract.EmbedRequest{Model: e.request.Model, Texts: texts, Dimensions: e.request.Size()}); err != nil {
		return reply, fmt.Errorf("writing texts: %w", err)
	}

	claims, err := json.Marshal(contract.EmbedClaims{
		OrganizationID: who.OrganizationID, KeyID: who.KeyID, Kind: contract.KindEmbed, Expires: deadline.UTC(),
	})
	if err != nil {
		return reply, fmt.Errorf("writing claims: %w", err)
	}

	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	answer, err := e.Workers.Call(ctx, contract.KindEmbed, e.Signer.Sign(claims, body.Bytes()), body.Bytes(), deadline)
	if err != nil {
		return reply, embedUnavailable(err)
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return reply, fmt.Errorf("reading vectors: %w", err)
	}
	return reply, refusedEmbedding(&reply, len(texts), deadline)
}

// refusedEmbedding returns the error for a worker's reply without usable vectors, or nil. texts is
// the number of texts in the call. Failures of the model keep the worker's code and message, which
// concern the request.
func refusedEmbedding(reply *contract.EmbedReply, texts int, deadline time.Time) error {
	switch f := reply.Failure; {
	case reply.Lacking != nil:
		// Too little of the budget is left for the texts.
		exceeded := budgetdb.UsedUp(*reply.Lacking)
		if reply.Later {
			exceeded.RetryAfter = time.Until(deadline) // by then, the calls that reserve the rest of the budget have finished
		}
		return exceeded
	case f != nil && f.Code == apierr.NotFound:
		return &apierr.Error{Code: apierr.NotFound, Detail: f.Message, Fields: []apierr.Field{
			{Field: f.Field, Code: openaiapi.CodeModelNotFound, Message: f.Message},
		}}
	case f != nil && f.Code == apierr.InvalidRequest:
		return apierr.Invalid(f.Field, httpx.CodeInvalidValue, "%s", f.Message)
	case f != nil:
		e := apierr.New(f.Code, "%s", f.Message)
		e.RetryAfter = max(f.RetryAfter, embedRetry)
		return e
	case len(reply.Vectors) == 0 || len(reply.Vectors) > texts || len(reply.Vectors[0]) == 0:
		return embedUnavailable(errors.New("the worker's reply contains no vectors"))
	}
	return nil
}

// embedUnavailable returns the error unavailable for a failed call of a worker. The cause appears
// only in the log. Retry-After is embedRetry.
func embedUnavailable(cause error) error {
	what := "embeddings are unavailable; try again shortly"
	if errors.Is(cause, bus.ErrNoToolWorker) {
		what = "embeddings are unavailable, because no worker with the role tool is available; try again shortly"
	}
	e := apierr.Wrap(apierr.Unavailable, cause, "%s", what)
	e.RetryAfter = embedRetry
	return e
}
