package soak

import (
	"fmt"

	"parley/scripts/bench/internal/parley"
)

// The kinds of what is asked.
const (
	streams  = "streams"        // a chat in a session of its own, whose events are read to the end
	chats    = "chats"          // in sessions of a few turns
	repeated = "repeated keys"  // of runs that have ended
	failing  = "failing runs"   // whose model refuses
	triggers = "run-automation" // with keys of their own
)

const (
	turns       = 5   // of a chat
	repeatAfter = 500 // requests: by then the first one has been answered, unless more are asked for at a time
)

// request is one of the many, by its number.
type request struct {
	kind    string
	agent   int    // its place; the last one is the one that fails
	message string // which the answer repeats
	key     string
	session string
}

// of gives the request of that number among agents that repeat what they are told. Of a hundred, 5 are streams, 10 chats, 5 keys that were
// used, and one fails.
func of(n, agents int) request {
	r := request{kind: triggers, agent: n % agents, message: fmt.Sprintf("message %d", n), key: fmt.Sprintf("key-%d", n)}
	switch n % 20 {
	case 0:
		r.kind, r.session = streams, fmt.Sprintf("stream-%d", n)
	case 1, 2: // each hundred has ten of them: two sessions
		r.kind, r.agent = chats, n/100%agents
		r.session = fmt.Sprintf("chat-%d-%d", n/100, n%20)
	case 3:
		if first := n - repeatAfter + 2; first > 0 { // which is no chat
			r = of(first, agents)
			r.kind = repeated
		}
	case 4:
		if n%100 == 4 {
			r.kind, r.agent = failing, agents
		}
	}
	return r
}

// on gives it as the deployment is asked.
func (r request) on(p *parley.Parley, agents []string) parley.Request {
	agent := agents[r.agent]
	switch r.kind {
	case streams, chats:
		return p.ChatOf(agent, r.session, r.message, r.kind == streams)
	case failing:
		return p.AutomationOf(agent, "fault 400: "+r.message, r.key)
	default:
		return p.AutomationOf(agent, r.message, r.key)
	}
}
