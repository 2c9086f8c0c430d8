package run

import (
	"context"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/offload"
	"parley/ingress/internal/uistream"
	"parley/shared/contract"
	"parley/shared/domain"
)

// demoRetention is the retention of demo visitors' runs. It is short, because visitors have no
// account with which they could delete their runs.
const demoRetention = 24 * time.Hour

// chatBody is the body of a chat request. A body in the format of a user interface library is
// converted to a chatBody; see conversation.
type chatBody struct {
	// Session of the run, chosen by the client.
	SessionID string                 `json:"sessionId" required:"true"`
	Message   httpx.Optional[string] `json:"message"` // may be missing if there are attachments
	// True: a stream of events; missing: as in the Accept header.
	Stream httpx.Optional[bool] `json:"stream"`
	runbody.OptionsBody

	before *branch               // conversation before the message; nil: the body contains none
	files  []dispatch.Attachment // files of the message, if the body contains messages
}

// Check adds the problems of the body to found. The options are checked when they are read.
func (b *chatBody) Check(found *httpx.Problems) {
	runbody.CheckSession(found, "sessionId", b.SessionID)
	if !b.Message.Set && len(b.Attachments.Value) == 0 {
		found.Add("message", httpx.CodeRequired, "is required, unless there are attachments")
		return
	}
	b.CheckMessage(found, "message", b.Message.Value)
}

// chat runs an agent or template for a person. It responds with the finished run or with a stream
// of the run's events. The query names the agent or template. The body, the query and the Accept
// header determine whether the response is a stream.
func (h *Handler) chat(c *gin.Context) {
	var (
		s   *dispatch.Submission
		to  *uistream.Reader
		p   *pending
		err error
	)
	offload.Do(func() {
		if s, to, err = h.chatSubmission(c); err != nil {
			return
		}
		httpx.StateFor(c).Find = nil // from here on, the request was counted or is a replay, so its errors may be detailed
		if to == nil {
			p, err = h.accept(c, s)
		}
	})
	if err == nil && to != nil {
		h.submitStream(c, s, to)
		return
	}
	h.respond(c, p, err)
}

// chatSubmission reads a chat request. The reader contains the format of the requested event
// stream. It is nil if the caller requests only the result. Problems of the query, the headers and
// the body are returned as one error.
func (h *Handler) chatSubmission(c *gin.Context) (*dispatch.Submission, *uistream.Reader, error) {
	reader, body, t, found, err := readChat(c)
	if err != nil {
		return nil, nil, err
	}

	who := httpx.Caller(c)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointChat, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(),
		TriggerType: domain.TriggerChat, SessionID: body.SessionID, Message: body.Message.Value, Options: body.Options(found),
		Attachments: append(body.files, body.AskedAttachments(found)...),
		Key:         runbody.IdempotencyKey(found, c, httpx.Optional[string]{}),
	}

	// The scope of the idempotency key contains the target and the principal, so that equal keys of
	// different targets or principals do not collide.
	s.AgentID, s.TemplateID = chatTarget(found, c)
	s.KeyScope = s.Target() + "\x00" + s.Principal

	if who.Kind == domain.CallerDemo {
		s.Retention = demoRetention
	}

	// Visitors get only the agent as its organization has configured it.
	if visits(who) {
		refuseOptions(found, &s.Options)
	}

	// The AI SDK sends the whole conversation. The ids of its messages determine which run is
	// continued.
	if before := body.before; before != nil {
		s.Sent = before.sent(visits(who))
		s.Before = func(ctx context.Context) error { return before.continueBy(ctx, s, h.SessionsDB) }
	}

	// AG-UI sends all messages, of which those after the last answer are new.
	if t != nil {
		s.Instructions = strings.Join(t.instructions, "\n\n")
		s.Message, _, s.Attachments = t.from(t.lastAnswer() + 1)
		s.Sent = t.sent()
		s.Before = func(ctx context.Context) error { return h.bring(ctx, s, t) }
		if visits(who) && s.Instructions != "" {
			found.Add("messages", httpx.CodeInvalidValue, "visitors cannot send messages with the roles system and developer")
		}
	}

	switch {
	case reader.Format != "": // a format other than Parley's needs all events from the first on
		reader.Last = httpx.ReadLastEventID(found, c)
	case body.Stream.Or(httpx.WantsEvents(c.Request.Header)):
		s.Last = httpx.ReadLastEventID(found, c)
	default:
		return s, nil, found.Err()
	}

	return s, &reader, found.Err()
}

// visits reports whether a caller is a visitor of a widget or of the demo. Visitors cannot write
// the agent's answers or instructions. Neither kind of visitor needs an account.
func visits(who domain.Caller) bool { return who.Kind == domain.CallerDemo || who.Visitor.ID != "" }

// refuseOptions adds a problem for each option that visitors cannot set. A schema is one of them,
// because its texts are instructions to the model. Only the first setting is named, because all are
// refused.
func refuseOptions(found *httpx.Problems, asked *domain.RunOptions) {
	if asked.Output != nil {
		found.Add("output", httpx.CodeInvalidValue, "visitors cannot change the form of the answer")
	}
	if asked.Settings != nil {
		found.Add(string(asked.Settings.Names()[0]), httpx.CodeInvalidValue, "visitors cannot change model settings")
	}
	if asked.ClientTools != nil {
		found.Add("tools", httpx.CodeInvalidValue, "is not supported for visitors, because they cannot send tool results")
	}
}

// readChat reads the body, and the requested format of the events. The thread is nil unless the
// body is in AG-UI's format. Problems are in found; err is only for a body that cannot be read.
func readChat(c *gin.Context) (reader uistream.Reader, body chatBody, t *thread, found *httpx.Problems, err error) {
	asked := &httpx.Problems{}
	reader.Format = requestedFormat(asked, c)

	// An invalid format is a problem of the query. Read the body in Parley's own format then, to
	// find its problems too.
	if reader.Format == "" || asked.Err() != nil {
		body, found, err = httpx.CollectMessage[chatBody](c)
	} else {
		body, t, found, err = collectFormatted(c, &reader)
	}

	if err == nil {
		err = found.Take(asked.Err())
	}
	return reader, body, t, found, err
}

// chatTarget reads the id of the agent or template from the query, which must contain exactly one.
// Problems are added to found, and both results are then "". It does not check that the target
// exists.
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
