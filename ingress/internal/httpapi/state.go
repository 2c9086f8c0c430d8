package httpapi

import (
	"net/url"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
)

// state is what is known of a request while it is carried out.
type state struct {
	requestID   string
	traceparent string
	ident       auth.Identity
	query       url.Values
	find        func() error // looks up what the query's id names; nil when it names nothing, or the request is not let in yet
	agentID     string       // these are for the log
	runID       string
	sessionID   string
	err         error // what fail was given
	large       *largeAnswers
	reserved    *largeAnswer // the answer, which was counted before it was made
	panicked    bool
	source      domain.HookSource     // of a webhook delivery, once its hook is known
	delivery    domain.DeliveryStatus // what became of it
}

const stateKey = "parley"

func stateOf(c *gin.Context) *state {
	known, _ := c.Get(stateKey)
	if st, ok := known.(*state); ok {
		return st
	}
	st := &state{}
	c.Set(stateKey, st)
	return st
}

// requestID gives the id of the request, which its response carries.
func requestID(c *gin.Context) string { return stateOf(c).requestID }

// traceparent gives the request's W3C trace context, "" when it has none or a malformed one.
func traceparent(c *gin.Context) string { return stateOf(c).traceparent }

// identity gives who calls and how they showed it.
func identity(c *gin.Context) auth.Identity { return stateOf(c).ident }

// caller gives who calls.
func caller(c *gin.Context) domain.Caller { return stateOf(c).ident.Caller }

// query gives the parameters of the query; behind the gate all of them are UTF-8 without U+0000.
func query(c *gin.Context) url.Values { return stateOf(c).query }

// about notes what a request is about, for the log; empty ids change nothing.
func about(c *gin.Context, agentID, runID, sessionID string) {
	st := stateOf(c)
	for _, id := range []struct {
		to   *string
		from string
	}{{&st.agentID, agentID}, {&st.runID, runID}, {&st.sessionID, sessionID}} {
		if id.from != "" {
			*id.to = id.from
		}
	}
}
