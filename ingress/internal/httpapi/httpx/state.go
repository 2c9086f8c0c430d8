package httpx

import (
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// State is the data of a request that middleware and handlers share. It is used only by the
// goroutine of the request. Middleware creates it, and the log line of the request reads it at the
// end.
type State struct {
	RequestID string // the response also contains it
	// W3C trace context; empty: none.
	Traceparent string
	// Caller; the zero value before authentication.
	Ident     auth.Identity
	Query     url.Values   // the parameters, after they were parsed
	Find      func() error // looks up the resource named by the query's id; nil without an id, and before admit has checked the caller
	AgentID   string       // AgentID, RunID and SessionID are for the log
	RunID     string
	SessionID string
	Err       error // the error passed to Fail
	// Limits for large responses; nil: no limits.
	Large       *LargeAnswers
	reserved    *LargeAnswer // a large response whose estimated size is counted; nil after EndReservation or CountAnswer
	LargeBodies LargeBodies  // nil: large bodies need no slots
	leaveBody   func()       // releases the slot of the request's body
	// Whether the handler panicked.
	Panicked bool
	// Render writes errors in another protocol's format.
	Render func(c *gin.Context, status int, retryable bool, coded *apierr.Error)
	// Source is the source of a webhook delivery. It is set when the hook of the delivery is found.
	Source     domain.HookSource
	Unverified bool                  // whether the sender of the delivery was not verified before
	Delivery   domain.DeliveryStatus // outcome of the delivery
}

// stateKey is the key of the State in gin's context.
const stateKey = "parley"

// StateFor returns the state of a request and creates it at the first call. Only the goroutine of
// the request may call it.
func StateFor(c *gin.Context) *State {
	known, _ := c.Get(stateKey)
	if st, ok := known.(*State); ok {
		return st
	}
	st := &State{}
	c.Set(stateKey, st)
	return st
}

// Traceparent returns the request's W3C trace context, or "" if it is missing or malformed.
func Traceparent(c *gin.Context) string { return StateFor(c).Traceparent }

// Identity returns the caller, with the way in which the caller authenticated.
func Identity(c *gin.Context) auth.Identity { return StateFor(c).Ident }

// Caller returns the request's caller.
func Caller(c *gin.Context) domain.Caller { return StateFor(c).Ident.Caller }

// Query returns the query's parameters. In handlers, all of them are UTF-8 without U+0000, because
// admission has checked them.
func Query(c *gin.Context) url.Values { return StateFor(c).Query }

// SetLogIDs sets the ids for the request's log line. An empty id leaves the current one unchanged.
func SetLogIDs(c *gin.Context, agentID, runID, sessionID string) {
	st := StateFor(c)
	for _, id := range []struct {
		to   *string
		from string
	}{{&st.AgentID, agentID}, {&st.RunID, runID}, {&st.SessionID, sessionID}} {
		if id.from != "" {
			*id.to = id.from
		}
	}
}

// EraseTime is the time limit for an erasure, which continues even if the caller disconnects.
const EraseTime = 30 * time.Second
