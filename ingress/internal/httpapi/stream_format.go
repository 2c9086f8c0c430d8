package httpapi

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

	"parley/ingress/internal/uistream"
	"parley/shared/domain"
)

// profileParameter is what names a format in the header Accept: text/event-stream;profile=ai-sdk.
const profileParameter = "profile"

// formatAsked reads the format that a run's events are wanted in: by the query's format, or by a profile of what is accepted.
// Empty is our own.
func formatAsked(found *problems, c *gin.Context) uistream.Format {
	named, given := single(c, "format", found)
	format := knownFormat(found, "format", named, given)
	profile, accepted := profileOf(c.Request.Header)
	accepted = accepted && wantsEvents(c.Request.Header)
	other := knownFormat(found, "Accept", profile, accepted)
	switch {
	case !given:
		return other
	case accepted && other != format:
		found.add("format", codeConflict, "query and header Accept name different formats")
	}
	return format
}

func knownFormat(found *problems, field, name string, given bool) uistream.Format {
	format := uistream.Format(name)
	if given && !slices.Contains(uistream.Formats, format) {
		found.add(field, codeInvalidValue, "the format of a stream must be ai-sdk or ag-ui; without one it is Parley's own")
	}
	return format
}

// profileOf gives the profile of the server-sent events that are accepted with the highest weight, if one is named.
func profileOf(header http.Header) (profile string, given bool) {
	weight := 0.0
	for _, r := range accepted(header) {
		if named, known := r.parameters[profileParameter]; known && r.media == contentEvents && r.weight > weight {
			profile, given, weight = named, true, r.weight
		}
	}
	return profile, given
}

// shownEvents are a run's events as a widget's visitor may see them.
type shownEvents struct{ source[domain.Event] }

// Next hides what is not the visitor's from the next events, which others share.
func (s shownEvents) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	events, err := s.source.Next(ctx, until)
	shown := make([]domain.Event, len(events))
	for i, e := range events {
		shown[i] = eventForVisitor(e)
	}
	return shown, err
}

// sendFormatted writes a run's events in the reader's format, as the caller may see them. They must come from the log's
// beginning.
func (a *api) sendFormatted(c *gin.Context, runID string, events source[domain.Event], reader uistream.Reader) {
	if name, value := reader.Format.Header(); name != "" {
		c.Header(name, value)
	}
	if caller(c).Visitor.ID != "" {
		events = shownEvents{events}
	}
	a.sendEncoded(c, events, uistream.New(runID, reader))
}

// dialog is a chat's body as libraries for user interfaces send it: all that they know of the conversation. The session
// holds that already: the last message counts.
type dialog struct {
	ID       string                    `json:"id"`       // of the conversation, as the AI SDK calls it
	ThreadID string                    `json:"threadId"` // as AG-UI calls it
	RunID    string                    `json:"runId"`
	Messages optional[[]dialogMessage] `json:"messages"`
	Tools    []json.RawMessage         `json:"tools"`
	Context  []json.RawMessage         `json:"context"`
	Resume   []json.RawMessage         `json:"resume"`
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

// dialogMost is how many bytes a dialog may have: those of whole conversations from callers whose organization answers for them,
// and no more than of any body from visitors, who need no account.
func dialogMost(who domain.Caller) int64 {
	if who.Kind == domain.CallerDemo || who.Visitor.ID != "" {
		return maxBody
	}
	return v1Body
}

// collectFormatted reads a chat's body for a format: our own, or that of the format's clients, which has messages.
func collectFormatted(c *gin.Context, reader *uistream.Reader) (chatBody, *problems, error) {
	var buf bytes.Buffer
	if err := readBody(c, &buf, dialogMost(caller(c))); err != nil {
		return chatBody{}, nil, err
	}
	found, said := &problems{}, dialog{}
	if !decodeOpen(buf.Bytes(), &said, found) || found.has(bodyPath) {
		return chatBody{}, nil, found.err()
	}
	if said.Messages.Set {
		return said.chat(found, reader), found, nil
	}
	if buf.Len() > maxBody {
		return chatBody{}, nil, tooLarge(maxBody)
	}
	found, body := &problems{}, chatBody{}
	if !decodeStrict(buf.Bytes(), &body, found) || found.has(bodyPath) {
		return chatBody{}, nil, found.err()
	}
	body.Check(found)
	if body.Stream.Set && !body.Stream.Value {
		if _, named := query(c)["format"]; named {
			found.add("stream", codeConflict, "a format is one of a stream")
		}
		reader.Format = "" // the body beats the header Accept
	}
	return body, found, nil
}

// chat reads a dialog as what it asks: its last message, in the session that has the conversation's id.
func (d *dialog) chat(found *problems, reader *uistream.Reader) chatBody {
	body, field := chatBody{SessionID: d.ID}, "id"
	if reader.Format == uistream.AGUI {
		body.SessionID, field = d.ThreadID, "threadId"
		reader.ThreadID, reader.RunID = d.ThreadID, d.RunID
		d.refuse(found)
	}
	found.text(field, body.SessionID, 1, sessionIDMax)
	last := len(d.Messages.Value) - 1
	if last < 0 || d.Messages.Value[last].Role != "user" {
		found.add("messages", codeInvalidValue, "the last message must be the user's")
		return body
	}
	at := "messages[" + strconv.Itoa(last) + "]"
	message := d.Messages.Value[last]
	said, where := message.Content, at+".content"
	if reader.Format == uistream.AISDK {
		said, where = message.Parts, at+".parts"
	}
	before := len(found.list)
	body.Message = saidIn(found, where, said)
	if len(found.list) == before {
		checkMessage(found, where, body.Message)
	}
	return body
}

// refuse finds what clients of AG-UI may send and an agent here cannot take into account.
func (d *dialog) refuse(found *problems) {
	found.text("runId", d.RunID, 0, sessionIDMax)
	for _, sent := range []struct {
		field, why string
		list       []json.RawMessage
	}{
		{"tools", "tools of the client cannot be called: an agent has its own", d.Tools},
		{"context", "cannot be passed on: write it into the message", d.Context},
		{"resume", "a run that waits for a person goes on by POST /api/runs", d.Resume},
	} {
		if len(sent.list) > 0 {
			found.add(sent.field, codeInvalidValue, "%s", sent.why)
		}
	}
}

// saidIn reads the text of a message's content.
func saidIn(found *problems, where string, raw json.RawMessage) string {
	if raw == nil {
		found.add(where, codeRequired, "is required")
		return ""
	}
	content, within := dialogContent{}, &problems{}
	if !decodeOpen(raw, &content, within) || len(within.list) > 0 {
		for _, f := range within.list {
			found.add(where+strings.TrimPrefix(f.Field, bodyPath), f.Code, "%s", f.Message)
		}
		return ""
	}
	text := []string{content.Text}
	for i, part := range content.Parts {
		if part.Type != "text" {
			found.add(where+"["+strconv.Itoa(i)+"]", codeInvalidValue, "must be text: other parts are not understood")
		}
		text = append(text, part.Text)
	}
	return strings.Join(text, "")
}
