package httpapi

import (
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/uistream"
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

func (b *chatBody) Check(found *problems) {
	checkSession(found, b.SessionID)
	checkMessage(found, "message", b.Message)
}

// chat runs an agent or template for a person, and answers with the run or, as it goes on, with its events.
// What reads the request has returned before the wait: its frames would be kept for each of thousands who wait.
func (a *api) chat(c *gin.Context) {
	s, err := chatSubmission(c)
	if err != nil {
		fail(c, err)
		return
	}
	stateOf(c).find = nil // from here on the request is counted, or is a replay
	switch {
	case s.streamed:
		a.submitStream(c, s)
	default:
		a.submit(c, s)
	}
}

func chatSubmission(c *gin.Context) (*submission, error) {
	reader, body, found, err := chatAsked(c)
	if err != nil {
		return nil, err
	}
	who := caller(c)
	s := &submission{
		endpoint: contract.EndpointChat, lane: domain.LaneChat, caller: who, principal: who.Principal(),
		triggerType: domain.TriggerChat, sessionID: body.SessionID, message: body.Message,
		key:      idempotencyKey(found, c, optional[string]{}),
		streamed: body.Stream.or(wantsEvents(c.Request.Header)) || reader.Format != "",
	}
	s.agentID, s.templateID = chatTarget(found, c)
	s.keyScope = s.target() + "\x00" + s.principal
	switch {
	case reader.Format != "": // whose encoder must see the whole log
		reader.Last = resumedAt(found, c)
		s.reader = reader
	case s.streamed:
		s.last = resumedAt(found, c)
	}
	if who.Kind == domain.CallerDemo {
		s.retention = demoRetention
	}
	return s, found.err()
}

// chatAsked reads the body, and who the run's events are to be told to in a format other than ours.
func chatAsked(c *gin.Context) (reader uistream.Reader, body chatBody, found *problems, err error) {
	asked := &problems{}
	reader.Format = formatAsked(asked, c)
	if reader.Format == "" || asked.err() != nil {
		body, found, err = collect[chatBody](c)
	} else {
		body, found, err = collectFormatted(c, &reader)
	}
	if err == nil {
		err = found.take(asked.err())
	}
	return reader, body, found, err
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
