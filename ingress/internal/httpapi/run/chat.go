package run

import (
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/uistream"
	"parley/shared/contract"
	"parley/shared/domain"
)

// demoRetention is how long a demo visitor's runs are kept.
const demoRetention = 24 * time.Hour

// chatBody is what a chat is sent.
type chatBody struct {
	SessionID string               `json:"sessionId" need:"yes"`
	Message   string               `json:"message" need:"yes"`
	Stream    httpx.Optional[bool] `json:"stream"`
}

func (b *chatBody) Check(found *httpx.Problems) {
	httpx.CheckSession(found, "sessionId", b.SessionID)
	httpx.CheckMessage(found, "message", b.Message)
}

// chat runs an agent or template for a person, and answers with the run or, as it goes on, with its events.
// What reads the request has returned before the wait: its frames would be kept for each of thousands who wait.
func (h *Handler) chat(c *gin.Context) {
	s, to, err := chatSubmission(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.StateFor(c).Find = nil // from here on the request is counted, or is a replay
	if to != nil {
		h.submitStream(c, s, *to)
		return
	}
	h.submit(c, s)
}

// chatSubmission reads a chat. It returns the reader of the run's events, or nil if the result is wanted instead.
func chatSubmission(c *gin.Context) (*dispatch.Submission, *uistream.Reader, error) {
	reader, body, found, err := chatAsked(c)
	if err != nil {
		return nil, nil, err
	}
	who := httpx.Caller(c)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointChat, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(),
		TriggerType: domain.TriggerChat, SessionID: body.SessionID, Message: body.Message,
		Key: httpx.IdempotencyKey(found, c, httpx.Optional[string]{}),
	}
	s.AgentID, s.TemplateID = chatTarget(found, c)
	s.KeyScope = s.Target() + "\x00" + s.Principal
	if who.Kind == domain.CallerDemo {
		s.Retention = demoRetention
	}
	switch {
	case reader.Format != "": // whose encoder must see the whole log
		reader.Last = httpx.ReadLastEventID(found, c)
	case body.Stream.Or(httpx.WantsEvents(c.Request.Header)):
		s.Last = httpx.ReadLastEventID(found, c)
	default:
		return s, nil, found.Err()
	}
	return s, &reader, found.Err()
}

// chatAsked reads the body, and who the run's events are to be told to in a format other than ours.
func chatAsked(c *gin.Context) (reader uistream.Reader, body chatBody, found *httpx.Problems, err error) {
	asked := &httpx.Problems{}
	reader.Format = formatAsked(asked, c)
	if reader.Format == "" || asked.Err() != nil {
		body, found, err = httpx.CollectMessage[chatBody](c)
	} else {
		body, found, err = collectFormatted(c, &reader)
	}
	if err == nil {
		err = found.Take(asked.Err())
	}
	return reader, body, found, err
}

// chatTarget reads which agent or template to chat with: exactly one.
func chatTarget(found *httpx.Problems, c *gin.Context) (agentID, templateID string) {
	agents, templates := httpx.Query(c)["id"], httpx.Query(c)["template"]
	switch {
	case len(agents) == 1 && len(templates) == 0:
		return agents[0], ""
	case len(templates) == 1 && len(agents) == 0:
		return "", templates[0]
	case len(agents) == 0 && len(templates) == 0:
		found.Add("id", httpx.CodeRequired, "is required, unless template is given")
	default:
		found.Add("id", httpx.CodeInvalidValue, "must not be combined with template")
	}
	return "", ""
}
