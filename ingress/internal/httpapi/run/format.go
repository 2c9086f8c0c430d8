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

// profileParameter is the parameter of a media type in an Accept header that names a format of
// events, as in text/event-stream;profile=ai-sdk. The media type itself selects an event stream.
const profileParameter = "profile"

// requestedFormat returns the requested format of a run's events: the parameter format of the
// query, or the profile in the Accept header. "" means Parley's own format. If both are present,
// they must be equal. A profile counts only if the client prefers events to JSON. Problems are
// added to found.
func requestedFormat(found *httpx.Problems, c *gin.Context) uistream.Format {
	named, present := httpx.QueryValue(c, "format", found)
	format := knownFormat(found, "format", named, present)
	profile, profiled := profileFor(c.Request.Header)
	profiled = profiled && httpx.WantsEvents(c.Request.Header)
	other := knownFormat(found, "Accept", profile, profiled)
	switch {
	case !present:
		return other
	case profiled && other != format:
		found.Add("format", httpx.CodeConflict, "differs from the format in the Accept header")
	}

	return format
}

// knownFormat returns the format with the given name. The argument present is whether the request
// names a format; if so, an unknown name is a problem. Without a named format, the result is
// Parley's own format.
func knownFormat(found *httpx.Problems, field, name string, present bool) uistream.Format {
	format := uistream.Format(name)
	if present && !slices.Contains(uistream.Formats, format) {
		found.Add(field, httpx.CodeInvalidValue, "must be ai-sdk or ag-ui; omit it for Parley's own format")
	}
	return format
}

// profileFor returns the profile in the Accept header. If text/event-stream occurs with several
// profiles, it returns the one with the highest weight. If there is none, present is false. A
// profile with the weight 0 does not count.
func profileFor(header http.Header) (profile string, present bool) {
	weight := 0.0
	for _, r := range httpx.ReadAccept(header) {
		if named, known := r.Parameters[profileParameter]; known && r.Media == httpx.ContentEvents && r.Weight > weight {
			profile, present, weight = named, true, r.Weight
		}
	}
	return profile, present
}

// visitorEvents restricts a run's events to the data that a widget's visitor may see. It is used
// for the formats of libraries; frameFor does the same for Parley's own format.
type visitorEvents struct{ httpx.Source[domain.Event] }

// Next returns copies of the next events with the visible data only. It does not change the events
// themselves, which other readers share. The error is that of the source.
func (s visitorEvents) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	events, err := s.Source.Next(ctx, until)
	shown := make([]domain.Event, len(events))
	for i, e := range events {
		shown[i] = eventForVisitor(e)
	}
	return shown, err
}

// sendFormatted writes a run's events in the reader's format, restricted to the data that the
// caller may see. The source must supply all events of the run from the first on. sendFormatted
// returns when the stream has ended. If clients recognize the format by a header, it sets this
// header.
func (h *Handler) sendFormatted(c *gin.Context, runID string, events httpx.Source[domain.Event], reader *uistream.Reader) {
	if name, value := reader.Format.Header(); name != "" {
		c.Header(name, value)
	}
	if httpx.Caller(c).Visitor.ID != "" {
		events = visitorEvents{events}
	}
	httpx.SendEncoded(c, events, uistream.New(runID, *reader), h.SessionCheck(c), h.Log)
}

// conversation is the body of a chat request in the format of a user interface library. Such a
// library sends the whole conversation, whose last message is the new one. For the use of the
// earlier messages, see branch (AI SDK) and thread (AG-UI). The body may also contain fields of
// Parley's own format: output, and the model settings. Unknown fields are ignored, because
// libraries send more than the service needs.
type conversation struct {
	ID       string `json:"id"`       // conversation id in the AI SDK's format
	ThreadID string `json:"threadId"` // conversation id in AG-UI's format
	// AG-UI: id of the client's run, repeated in the events.
	RunID    string  `json:"runId"`
	Trigger  string  `json:"trigger"`   // AI SDK: why the request was sent
	Replaced *string `json:"messageId"` // AI SDK: id of the message that was edited, or to which another answer is requested
	// All messages of the conversation, the new one last.
	Messages httpx.Optional[[]conversationMessage] `json:"messages"`
	// AG-UI, AI SDK: tools of the client, which must be empty.
	Tools []json.RawMessage `json:"tools"`
	// AG-UI: context of the client, which must be empty.
	Context []json.RawMessage `json:"context"`
	// AG-UI: decisions about interrupts, which must be empty.
	Resume []json.RawMessage `json:"resume"`

	// Form of the answer, as in Parley's own format.
	Output httpx.Removable[runbody.OutputBody] `json:"output"`
	runbody.SettingsBody
	// Must be empty: files are parts of messages.
	Attachments []json.RawMessage `json:"attachments"`
}

// conversationMessage is a message of a conversation. The content is in the field parts or content,
// depending on the format. Only the fields that the service uses are decoded.
type conversationMessage struct {
	ID string `json:"id"`
	// User, assistant, system, developer or tool.
	Role      string            `json:"role"`
	Parts     json.RawMessage   `json:"parts"`     // in the AI SDK's format
	Content   json.RawMessage   `json:"content"`   // in AG-UI's format
	ToolCalls []json.RawMessage `json:"toolCalls"` // in AG-UI's format
}

// collectFormatted reads the body of a chat request for events in the format of a library. The body
// itself has this format if it contains messages, and Parley's own format otherwise.
// collectFormatted sets the fields of the reader that come from the body. The returned thread is
// nil unless the body has the format of AG-UI. The returned Problems are those of the fields. The
// error is for a body that cannot be decoded.
func collectFormatted(c *gin.Context, reader *uistream.Reader) (chatBody, *thread, *httpx.Problems, error) {
	var buf bytes.Buffer
	if err := httpx.ReadBody(c, &buf, httpx.MessageBody(httpx.Caller(c))); err != nil {
		return chatBody{}, nil, nil, err
	}

	// Decode leniently first: a body with messages has the format of a library.
	found, sent := &httpx.Problems{}, conversation{}
	if !httpx.DecodeOpen(buf.Bytes(), &sent, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, nil, found.Err()
	}

	if sent.Messages.Set {
		body, t := sent.chat(found, reader)
		return body, t, found, nil
	}

	// Without messages, the body has Parley's own format and is decoded strictly.
	found, body := &httpx.Problems{}, chatBody{}
	if !httpx.DecodeStrict(buf.Bytes(), &body, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, nil, found.Err()
	}

	body.Check(found)
	if body.Stream.Set && !body.Stream.Value {
		if _, named := httpx.Query(c)["format"]; named {
			found.Add("stream", httpx.CodeConflict, "must not be false with a stream format")
		}
		reader.Format = "" // stream=false in the body takes precedence over the Accept header
	}

	return body, nil, found, nil
}

// chat converts a conversation to a chat request in Parley's own format. The request contains the
// last message, and its session has the id of the conversation. For AG-UI, chat also returns the
// thread, which ends with this message. Problems are added to found. If the last message is not
// from the user, the thread is nil.
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

	// If the content has a wrong form, its text is empty. Do not add a second problem because of
	// the empty text.
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

// clientToolsHint is the message for a request with tools of the client in a format that does not
// support them.
const clientToolsHint = "must be empty, because this format does not support the client's own tools; " +
	"use Parley's own format or /v1 for them"

// refuse adds a problem for each AG-UI field that Parley's agents do not support. Silently ignoring
// them would change the meaning of the request.
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
