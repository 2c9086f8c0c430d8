package run

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
)

// profileParameter is what names a format in the header Accept: text/event-stream;profile=ai-sdk.
const profileParameter = "profile"

// formatAsked reads the format that a run's events are wanted in: by the query's format, or by a profile of what is accepted.
// Empty is our own.
func formatAsked(found *httpx.Problems, c *gin.Context) uistream.Format {
	named, given := httpx.QueryValue(c, "format", found)
	format := knownFormat(found, "format", named, given)
	profile, accepted := profileFor(c.Request.Header)
	accepted = accepted && httpx.WantsEvents(c.Request.Header)
	other := knownFormat(found, "Accept", profile, accepted)
	switch {
	case !given:
		return other
	case accepted && other != format:
		found.Add("format", httpx.CodeConflict, "differs from the format in the header Accept")
	}
	return format
}

func knownFormat(found *httpx.Problems, field, name string, given bool) uistream.Format {
	format := uistream.Format(name)
	if given && !slices.Contains(uistream.Formats, format) {
		found.Add(field, httpx.CodeInvalidValue, "must be ai-sdk or ag-ui; omit it for Parley's own format")
	}
	return format
}

// profileFor gives the profile of the server-sent events that are accepted with the highest weight, if one is named.
func profileFor(header http.Header) (profile string, given bool) {
	weight := 0.0
	for _, r := range httpx.ReadAccept(header) {
		if named, known := r.Parameters[profileParameter]; known && r.Media == httpx.ContentEvents && r.Weight > weight {
			profile, given, weight = named, true, r.Weight
		}
	}
	return profile, given
}

// shownEvents are a run's events as a widget's visitor may see them.
type shownEvents struct{ httpx.Source[domain.Event] }

// Next hides what is not the visitor's from the next events, which others share.
func (s shownEvents) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	events, err := s.Source.Next(ctx, until)
	shown := make([]domain.Event, len(events))
	for i, e := range events {
		shown[i] = eventForVisitor(e)
	}
	return shown, err
}

// sendFormatted writes a run's events in the reader's format, as the caller may see them. They must come from the log's
// beginning.
func (h *Handler) sendFormatted(c *gin.Context, runID string, events httpx.Source[domain.Event], reader uistream.Reader) {
	if name, value := reader.Format.Header(); name != "" {
		c.Header(name, value)
	}
	if httpx.Caller(c).Visitor.ID != "" {
		events = shownEvents{events}
	}
	httpx.SendEncoded(c, events, uistream.New(runID, reader), h.Permit(c), h.Log)
}

// dialog is a chat's body as libraries for user interfaces send it: all that they know of the conversation. The session
// holds that already: the last message counts.
type dialog struct {
	ID       string                          `json:"id"`       // of the conversation, as the AI SDK calls it
	ThreadID string                          `json:"threadId"` // as AG-UI calls it
	RunID    string                          `json:"runId"`
	Messages httpx.Optional[[]dialogMessage] `json:"messages"`
	Tools    []json.RawMessage               `json:"tools"`
	Context  []json.RawMessage               `json:"context"`
	Resume   []json.RawMessage               `json:"resume"`
}

type dialogMessage struct {
	Role    string          `json:"role"`
	Parts   json.RawMessage `json:"parts"`   // the AI SDK's
	Content json.RawMessage `json:"content"` // AG-UI's
}

// dialogContent is what a message says.
type dialogContent struct {
	Text  string
	Parts []dialogPart
}

// Either says that it is a text or a list of parts.
func (dialogContent) Either() {}

type dialogPart struct {
	Type string `json:"type" need:"yes"`
	Text string `json:"text"`
}

// collectFormatted reads a chat's body for a format: our own, or that of the format's clients, which has messages.
func collectFormatted(c *gin.Context, reader *uistream.Reader) (chatBody, *httpx.Problems, error) {
	var buf bytes.Buffer
	if err := httpx.ReadBody(c, &buf, httpx.MessageBody(httpx.Caller(c))); err != nil {
		return chatBody{}, nil, err
	}
	found, said := &httpx.Problems{}, dialog{}
	if !httpx.DecodeOpen(buf.Bytes(), &said, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, found.Err()
	}
	if said.Messages.Set {
		return said.chat(found, reader), found, nil
	}
	found, body := &httpx.Problems{}, chatBody{}
	if !httpx.DecodeStrict(buf.Bytes(), &body, found) || found.Has(httpx.BodyPath) {
		return chatBody{}, nil, found.Err()
	}
	body.Check(found)
	if body.Stream.Set && !body.Stream.Value {
		if _, named := httpx.Query(c)["format"]; named {
			found.Add("stream", httpx.CodeConflict, "must not be false with a stream format")
		}
		reader.Format = "" // the body beats the header Accept
	}
	return body, found, nil
}

// chat reads a dialog as what it asks: its last message, in the session that has the conversation's id.
func (d *dialog) chat(found *httpx.Problems, reader *uistream.Reader) chatBody {
	body, field := chatBody{SessionID: d.ID}, "id"
	if reader.Format == uistream.AGUI {
		body.SessionID, field = d.ThreadID, "threadId"
		reader.ThreadID, reader.RunID = d.ThreadID, d.RunID
		d.refuse(found)
	}
	httpx.CheckSession(found, field, body.SessionID)
	last := len(d.Messages.Value) - 1
	if last < 0 || d.Messages.Value[last].Role != "user" {
		found.Add("messages", httpx.CodeInvalidValue, "the last message must be the user's")
		return body
	}
	at := "messages[" + strconv.Itoa(last) + "]"
	message := d.Messages.Value[last]
	said, where := message.Content, at+".content"
	if reader.Format == uistream.AISDK {
		said, where = message.Parts, at+".parts"
	}
	before := len(found.List)
	body.Message = saidIn(found, where, said)
	if len(found.List) == before {
		httpx.CheckMessage(found, where, body.Message)
	}
	return body
}

// refuse finds what clients of AG-UI may send and an agent here cannot take into account.
func (d *dialog) refuse(found *httpx.Problems) {
	found.Text("runId", d.RunID, 0, httpx.MaxSessionID)
	for _, sent := range []struct {
		field, why string
		list       []json.RawMessage
	}{
		{"tools", "must be empty: client tools are not supported", d.Tools},
		{"context", "is not supported: include it in the message", d.Context},
		{"resume", "is not supported: decide with POST /api/runs", d.Resume},
	} {
		if len(sent.list) > 0 {
			found.Add(sent.field, httpx.CodeInvalidValue, "%s", sent.why)
		}
	}
}

// saidIn reads the text of a message's content.
func saidIn(found *httpx.Problems, where string, raw json.RawMessage) string {
	if raw == nil {
		found.Add(where, httpx.CodeRequired, "is required")
		return ""
	}
	content, within := dialogContent{}, &httpx.Problems{}
	if !httpx.DecodeOpen(raw, &content, within) || len(within.List) > 0 {
		for _, f := range within.List {
			found.Add(where+strings.TrimPrefix(f.Field, httpx.BodyPath), f.Code, "%s", f.Message)
		}
		return ""
	}
	text := []string{content.Text}
	for i, part := range content.Parts {
		if part.Type != "text" {
			found.Add(where+"["+strconv.Itoa(i)+"]", httpx.CodeInvalidValue, "must be text: other parts are not supported")
		}
		text = append(text, part.Text)
	}
	return strings.Join(text, "")
}
