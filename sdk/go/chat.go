package parley

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"unicode/utf8"
)

// maxSessionKey is the maximum length of an idempotency key that names a session. The session's id,
// which contains the key, has at most 128 characters.
const maxSessionKey = 124

// Chat sends messages to agents and templates. A message starts a run of the agent or template.
type Chat struct{ group }

// ChatParams is a message to an agent or a template. Exactly one of AgentID and TemplateID must be
// set. The other fields are optional, except that a message needs a Message or Attachments.
type ChatParams struct {
	AgentID, TemplateID string
	Message             string         // may be empty if there are Attachments
	Output              any            // the JSON Schema that the answer must match; default: the agent's own
	SessionID           string         // default: a new session, whose id contains the idempotency key
	Settings            *ModelSettings // take precedence over the agent's settings
	IdempotencyKey      string         // identifies the message; default: a new key
	Tools               []ClientTool   // tools that this program executes itself; see Runs.SubmitToolResults
	NoWait              bool           // whether Send returns as soon as the run is accepted; Stream ignores it

	Attachments []NewAttachment // images and documents of the message
}

// addOptions adds the options of a request to its body. Options that are not set are omitted, so
// that the agent's settings apply.
func addOptions(body map[string]any, output any, settings *ModelSettings, tools []ClientTool, attachments []NewAttachment) {
	if output != nil {
		body["output"] = map[string]any{"schema": output}
	}
	settings.addTo(body)
	if len(tools) > 0 {
		body["tools"] = tools
	}
	if len(attachments) > 0 {
		body["attachments"] = attachments
	}
}

// addTo adds to the body of a request each model setting that has a value. It adds nothing if s is
// nil.
func (s *ModelSettings) addTo(body map[string]any) {
	if s == nil {
		return
	}
	add(body, "temperature", s.Temperature)
	add(body, "topP", s.TopP)
	add(body, "maxOutputTokens", s.MaxOutputTokens)
	add(body, "reasoningEffort", s.ReasoningEffort)
	add(body, "seed", s.Seed)
	add(body, "parallelToolCalls", s.ParallelToolCalls)
	if len(s.Stop) > 0 {
		body["stop"] = s.Stop
	}
	for _, name := range s.Cleared { // null means the model's default
		body[string(name)] = nil
	}
}

// add sets a field of a body unless value is nil. A nil pointer is a missing setting, which differs
// from zero.
func add[T any](body map[string]any, name string, value *T) {
	if value != nil {
		body[name] = *value
	}
}

// Send sends a message, waits until its run has finished or requires an action, and returns the
// run. A failed run is not an error of Send: use Run.Completed. If ctx ends first, the error is a
// *WaitError, and the run continues. Each call sends a new message, unless IdempotencyKey is set.
// If a key is repeated with another message, the error is an *APIError with the status 422.
func (c Chat) Send(ctx context.Context, message ChatParams) (*Run, error) {
	request, err := message.request(false)
	if err != nil {
		return nil, err
	}
	return c.client.Runs.submit(ctx, request, !message.NoWait)
}

// Stream returns the events of a message's run. The message is sent when the stream is first read.
// If the message is invalid, the first read returns an error. If the stream is read again after an
// interruption, the message is not sent a second time, because the request has an idempotency key.
func (c Chat) Stream(message ChatParams) *Stream {
	request, err := message.request(true)
	return &Stream{client: c.client, request: request, err: err}
}

// request returns the request that sends the message. The argument stream selects a response with
// the run's events. request returns an error unless exactly one of AgentID and TemplateID is set.
// It also returns an error if the idempotency key is too long for the id of a new session. The key
// is part of the request, so all retries of the request use the same key.
func (p ChatParams) request(stream bool) (Request, error) {
	if (p.AgentID == "") == (p.TemplateID == "") {
		return Request{}, errors.New("a message needs exactly one of AgentID and TemplateID")
	}

	key := keyOr(p.IdempotencyKey)
	session := p.SessionID
	if session == "" { // the session is derived from the key, because a retry with the same key must name the same session
		if utf8.RuneCountInString(key) > maxSessionKey {
			return Request{}, errors.New("a message with an IdempotencyKey of more than 124 characters needs a SessionID")
		}
		session = "key-" + key
	}

	body := map[string]any{"sessionId": session, "message": p.Message}
	addOptions(body, p.Output, p.Settings, p.Tools, p.Attachments)
	if stream {
		body["stream"] = true
	}
	query := url.Values{"action": {"chat"}}
	set(query, "id", p.AgentID)
	set(query, "template", p.TemplateID)
	return Request{
		Method: http.MethodPost, Path: agentsPath, Query: query, Header: map[string]string{"Idempotency-Key": key}, Body: body, Keyed: true,
	}, nil
}
