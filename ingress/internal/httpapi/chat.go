package httpapi

import (
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/contract"
	"parley/shared/domain"
)

// demoRetention is how long a demo visitor's runs are kept.
const demoRetention = 24 * time.Hour

// chatBody is what a chat is sent.
type chatBody struct {
	SessionID string         `json:"sessionId" need:"yes"`
	Message   string         `json:"message" need:"yes"`
	Stream    optional[bool] `json:"stream"`
}

func (b *chatBody) check(found *problems) {
	checkSession(found, b.SessionID)
	checkMessage(found, "message", b.Message)
	if b.Stream.Value {
		found.add("stream", codeInvalidValue, "this release answers chats as JSON only")
	}
}

// chat runs an agent or template for a person, and answers with the run.
func (a *api) chat(c *gin.Context) {
	body, found, err := collect[chatBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	who := caller(c)
	s := submission{
		endpoint: contract.EndpointChat, lane: domain.LaneChat, caller: who, principal: who.Principal(),
		triggerType: domain.TriggerChat, sessionID: body.SessionID, message: body.Message,
		key: idempotencyKey(found, c, optional[string]{}),
	}
	s.agentID, s.templateID = chatTarget(found, c)
	s.keyScope = s.target() + "\x00" + s.principal
	if strings.Contains(c.GetHeader("Accept"), "text/event-stream") {
		found.add("Accept", codeInvalidValue, "this release answers chats as JSON only")
	}
	if who.Kind == domain.CallerDemo {
		s.retention = demoRetention
	}
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	a.submit(c, s)
}

// chatTarget reads which agent or template to chat with: exactly one.
func chatTarget(found *problems, c *gin.Context) (agentID, templateID string) {
	agents, templates := query(c)["id"], query(c)["template"]
	switch {
	case len(agents) == 1 && len(templates) == 0:
		return agents[0], ""
	case len(templates) == 1 && len(agents) == 0:
		return "", templates[0]
	case len(agents) == 0 && len(templates) == 0:
		found.add("id", codeRequired, "the query must name an agent by id, or a template by template")
	default:
		found.add("id", codeInvalidValue, "the query must name one agent by id, or one template by template, not both")
	}
	return "", ""
}
