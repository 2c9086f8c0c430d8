package run

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
)

// profileParameter is the parameter of an Accept header that names an event format, for example
// text/event-stream;profile=ai-sdk.
const profileParameter = "profile"

// requestedFormat returns the requested format of a run's events. The query may name a format, or
// the Accept header may have it as a profile. "" means Parley's own format.
func requestedFormat(found *httpx.Problems, c *gin.Context) uistream.Format {
	named, present := httpx.QueryValue(c, "format", found)
	format := knownFormat(found, "format", named, present)
	profile, sendAccepted := profileFor(c.Request.Header)
	sendAccepted = sendAccepted && httpx.WantsEvents(c.Request.Header)
	other := knownFormat(found, "Accept", profile, sendAccepted)
	switch {
	case !present:
		return other
	case sendAccepted && other != format:
		found.Add("format", httpx.CodeConflict, "differs from the format in the Accept header")
	}

	return format
}

// knownFormat returns the format with the given name. If present is true but the name is unknown,
// it adds a problem.
func knownFormat(found *httpx.Problems, field, name string, present bool) uistream.Format {
	format := uistream.Format(name)
	if present && !slices.Contains(uistream.Formats, format) {
		found.Add(field, httpx.CodeInvalidValue, "must be ai-sdk or ag-ui; omit it for Parley's own format")
	}
	return format
}

// profileFor returns the profile of the event stream that has the highest weight in the Accept
// header. present is false if there is no profile.
func profileFor(header http.Header) (profile string, present bool) {
	weight := 0.0
	for _, r := range httpx.ReadAccept(header) {
		if named, known := r.Parameters[profileParameter]; known && r.Media == httpx.ContentEvents && r.Weight > weight {
			profile, present, weight = named, true, r.Weight
		}
	}
	return profile, present
}

// visitorEvents restricts a run's events to the data that a widget's visitor may see.
type visitorEvents struct{ httpx.Source[domain.Event] }

// Next returns the next events in restricted form. It copies them, because other readers share the
// originals.
func (s visitorEvents) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	events, err := s.Source.Next(ctx, until)
	shown := make([]domain.Event, len(events))
	for i, e := range events {
		shown[i] = eventForVisitor(e)
	}
	return shown, err
}

// sendFormatted writes a run's events in the reader's format, restricted to the data that the
// caller may see. The source must begin with the first event of the run.
func (h *Handler) sendFormatted(c *gin.Context, runID string, events httpx.Source[domain.Event], reader *uistream.Reader) {
	if name, value := reader.Format.Header(); name != "" {
		c.Header(name, value)
	}
	if httpx.Caller(c).Visitor.ID != "" {
		events = visitorEvents{events}
	}
	httpx.SendEncoded(c, events, uistream.New(runID, *reader), h.SessionCheck(c), h.Log)
}

// conversation is the body of a chat in the format of a user interface library. Such libraries send
// the whole conversation; its last message is the new one. With the AI SDK, the earlier messages
// determine the branch of the session that the run continues; see branch. For AG-UI, see thread.
// The body may also have the output and the model settings of Parley's own format.
type conversation struct {
	ID       string                                `json:"id"`       // conversation id in the AI SDK's format
	ThreadID string                                `json:"threadId"` // conversation id in AG-UI's format
	RunID    string                                `json:"runId"`
	Trigger  string                                `json:"trigger"`   // AI SDK: why the request was sent
	Replaced *string                               `json:"messageId"` // AI SDK: the message that is edited, or whose answer is regenerated
	Messages httpx.Optional[[]conversationMessage] `json:"messages"`
	Tools    []json.RawMessage                     `json:"tools"`
	Context  []json.RawMessage                     `json:"context"`
	Resume   []json.RawMessage                     `json:"resume"`

	Output httpx.Removable[runbody.OutputBody] `json:"output"`
	runbody.SettingsBody
	Attachments []json.RawMessage `json:"attachments"`
}

// conversationMessage is a message of a conversation. The format determines which field contains
// the content.
type conversationMessage struct {
	ID        string            `json:"id"`
	Role      string            `json:"role"`
	Parts     json.RawMessage   `json:"parts"`     // in the AI SDK's format
	Content   json.RawMessage   `json:"content"`   // in AG-UI's format
	ToolCalls []json.RawMessage `json:"toolCalls"` // in AG-UI's format
}

// collectFormatted reads a chat's body in Parley's own format or in the requested one. Only bodies
// in the requested format have messages. The thread is nil unless the format is AG-UI.
func collectFormatted(c *gin.Context, reader *uistream.Reader) (chatBody, *thread, *httpx.Problems, error) {
	var buf bytes.Buffer
	if err := httpx.ReadBody(c, &buf, httpx.MessageBody(httpx.Caller(c))); err != nil {
		return chatBody{}, nil, nil, err
	}

	found, sent := &httpx.Problems{}, conversation{}
	if !httpx.DecodeOpen(buf.Bytes(), &sent, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, nil, found.Err()
	}

	if sent.Messages.Set {
		body, t := sent.chat(found, reader)
		return body, t, found, nil
	}

	// A body without messages has Parley's own format, which is decoded strictly.
	found, body := &httpx.Problems{}, chatBody{}
	if !httpx.DecodeStrict(buf.Bytes(), &body, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, nil, found.Err()
	}

	body.Check(found)
	if body.Stream.Set && !body.Stream.Value {
		if _, named := httpx.Query(c)["format"]; named {
			found.Add("stream", httpx.CodeConflict, "must not be false with a stream format")
		}
		reader.Format = "" // the body takes precedence over the Accept header
	}

	return body, nil, found, nil
}

// chat converts a conversation to a chat request with the last message, in the session with the
// conversation's id. For AG-UI, it also returns the thread, which ends with this message.
func (d *conversation) chat(found *httpx.Problems, reader *uistream.Reader) (chatBody, *thread) {
	body, field := chatBody{SessionID: d.ID, OptionsBody: runbody.OptionsBody{Output: d.Output, SettingsBody: d.SettingsBody}}, "id"
	if reader.Format == uistream.AGUI {
		body.SessionID, field = d.ThreadID, "threadId"
		reader.ThreadID, reader.RunID = d.ThreadID, d.RunID
		d.refuse(found)
	} else if len(d.Tools) > 0 {
		found.Add("tools", httpx.CodeInvalidValue, clientToolsHint)
	}

	runbody.CheckSession(found, field, body.SessionID)
	if len(d.Attachments) > 0 {
		found.Add("attachments", httpx.CodeInvalidValue, "must be empty, because files are parts of messages in this format")
	}

	last := len(d.Messages.Value) - 1
	if last < 0 || d.Messages.Value[last].Role != "user" {
		found.Add("messages", httpx.CodeInvalidValue, "the last message must be from the user")
		return body, nil
	}

	at := "messages[" + strconv.Itoa(last) + "]"
	message := d.Messages.Value[last]
	sent, where := message.Content, at+".content"
	if reader.Format == uistream.AISDK {
		sent, where = message.Parts, at+".parts"
		body.before = d.branch()
	}

	var t *thread
	if reader.Format == uistream.AGUI {
		t = (&conversation{Messages: httpx.Optional[[]conversationMessage]{Value: d.Messages.Value[:last]}}).readThread(found)
	}

	// The text of content in a wrong form is empty. Such content gets only the problem of its form,
	// and not an additional problem because of the empty text.
	before := len(found.List)
	body.Message.Value, body.files = readContent(found, where, sent, true)
	if len(found.List) == before && (len(body.files) == 0 || body.Message.Value != "") {
		runbody.CheckMessage(found, where, body.Message.Value)
	}
	if t != nil {
		t.said = append(t.said, threadMessage{role: "user", text: body.Message.Value, files: body.files})
	}
	return body, t
}

// clientToolsHint says in which requests tools of the client are supported.
const clientToolsHint = "must be empty, because this format does not support the client's own tools; " +
	"use Parley's own format or /v1 for them"

// refuse adds a problem for each AG-UI field that Parley's agents do not support.
func (d *conversation) refuse(found *httpx.Problems) {
	found.Text("runId", d.RunID, 0, runbody.MaxSessionID)
	for _, sent := range []struct {
		field, why string
		list       []json.RawMessage
	}{
		{"tools", clientToolsHint, d.Tools},
		{"context", "is not supported: include it in the message", d.Context},
		{"resume", "is not supported: send the decision with POST /api/runs", d.Resume},
	} {
		if len(sent.list) > 0 {
			found.Add(sent.field, httpx.CodeInvalidValue, "%s", sent.why)
		}
	}
}
