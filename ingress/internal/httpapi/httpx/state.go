package httpx

import (
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// State is what is known of a request while it is carried out.
type State struct {
	RequestID   string
	Traceparent string
	Ident       auth.Identity
	Query       url.Values
	Find        func() error // looks up what the query's id names; nil when it names nothing, or the request is not let in yet
	AgentID     string       // these are for the log
	RunID       string
	SessionID   string
	Err         error // what fail was given
	Large       *LargeAnswers
	reserved    *LargeAnswer // the answer, which was counted before it was made
	LargeBodies LargeBodies  // nil: large bodies take no slots
	leaveBody   func()       // gives back the slot of the request's body
	Panicked    bool
	Render      func(c *gin.Context, status int, retryable bool, coded *apierr.Error) // of errors in another protocol's shape; nil: RFC 9457's
	Source      domain.HookSource                                                     // of a webhook delivery, once its hook is known
	Stranger    bool                                                                  // the sender of the delivery is not verified yet
	Delivery    domain.DeliveryStatus                                                 // what became of it
}

const stateKey = "parley"

// StateFor returns the state of a request, which it makes at the first call.
func StateFor(c *gin.Context) *State {
	known, _ := c.Get(stateKey)
	if st, ok := known.(*State); ok {
		return st
	}
	st := &State{}
	c.Set(stateKey, st)
	return st
}

// requestID gives the id of the request, which its response carries.
func requestID(c *gin.Context) string { return StateFor(c).RequestID }

// Traceparent gives the request's W3C trace context, "" when it has none or a malformed one.
func Traceparent(c *gin.Context) string { return StateFor(c).Traceparent }

// Identity gives who calls and how they showed it.
func Identity(c *gin.Context) auth.Identity { return StateFor(c).Ident }

// Caller gives who calls.
func Caller(c *gin.Context) domain.Caller { return StateFor(c).Ident.Caller }

// Query gives the parameters of the query; behind the gate all of them are UTF-8 without U+0000.
func Query(c *gin.Context) url.Values { return StateFor(c).Query }

// About notes what a request is about, for the log; empty ids change nothing.
func About(c *gin.Context, agentID, runID, sessionID string) {
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

// EraseTime is how long an erasure may take. Once it has begun it is carried through, whether or not its caller waits.
const EraseTime = 30 * time.Second
