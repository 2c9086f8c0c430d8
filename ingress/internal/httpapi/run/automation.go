package run

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/offload"
	"parley/shared/domain"
)

const (
	// Longest retention that a request can ask for.
	maxTTLOverride = 2_592_000 // seconds: 30 days
)

// triggerTypes matches a valid trigger type. Callers choose the type freely, and lists of runs show
// it.
var triggerTypes = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// automationBody is the body of POST /api/internal/run-automation. The result of the run is kept at
// least for the handler's default retention.
type automationBody struct {
	// Id of the agent.
	Target string `json:"target" required:"true"`
	// Message, and other fields that the agent gets as data.
	Input map[string]json.RawMessage `json:"input" required:"true"`
	// Key of the request; the header Idempotency-Key can be used instead.
	IdempotencyKey httpx.Optional[string] `json:"idempotencyKey"`
	// Retention of the result, in seconds.
	TTLOverride httpx.Optional[int64] `json:"ttlOverride"`
	// Session of the run; missing: a new one.
	SessionID httpx.Optional[string] `json:"sessionId"`
	runbody.OptionsBody
}

// runAutomation handles POST /api/internal/run-automation: it runs an agent on behalf of another
// system. The response is the finished run, or 202 with the run's current state after the wait that
// the request prefers. Requests with the same idempotency key get the same run.
func (h *Handler) runAutomation(c *gin.Context) {
	var p *pending
	var err error

	// Only the method respond may stay on the stack while the request waits; see respond.
	offload.Do(func() {
		var s *dispatch.Submission
		if s, err = h.automationFor(c); err == nil {
			p, err = h.accept(c, s)
		}
	})
	h.respond(c, p, err)
}

// automationFor reads the submission of a request. Problems of the body and of the headers are
// returned as one error. The submission is not accepted yet.
func (h *Handler) automationFor(c *gin.Context) (*dispatch.Submission, error) {
	body, found, err := httpx.CollectMessage[automationBody](c)
	if err != nil {
		return nil, err
	}

	who := httpx.Caller(c)
	kept := retention(found, body.TTLOverride, h.RetentionDefault)
	triggerType, automation := trigger(found, c)
	message, data := body.automationInput(found)

	s := dispatch.NewAutomation(who, body.Target, kept)
	if !who.MayRead(domain.SystemPrincipal) { // a run that a member triggers belongs to that member
		s.Principal = who.AutomationPrincipal()
	}

	s.KeyScope = dispatch.AutomationScope(who)
	s.Key, s.SessionID = runbody.IdempotencyKey(found, c, body.IdempotencyKey), body.SessionID.Value
	s.Message, s.Data = message, data
	s.TriggerType, s.AutomationID = triggerType, automation

	s.Options, s.Attachments = body.Options(found), body.AskedAttachments(found)
	if body.SessionID.Set {
		runbody.CheckSession(found, "sessionId", body.SessionID.Value)
	}

	return &s, found.Err()
}

// automationInput separates the field message from the input. The agent gets the other fields as
// data. automationInput removes the message from the body's input. Problems are added to found.
// data is nil if there are no other fields.
func (b *automationBody) automationInput(found *httpx.Problems) (message string, data json.RawMessage) {
	input := b.Input
	raw, ok := input["message"]
	switch {
	case !ok:
		found.Add("input.message", httpx.CodeRequired, "is required")
	case json.Unmarshal(raw, &message) != nil || string(raw) == "null":
		found.Add("input.message", httpx.CodeInvalidType, "must be a string")
	default:
		b.CheckMessage(found, "input.message", message)
	}

	delete(input, "message")

	if len(input) == 0 {
		return message, nil
	}

	data, err := json.Marshal(input)
	if err != nil {
		found.Add("input", httpx.CodeInvalidValue, "contains a value that is not valid JSON")
	}
	return message, data
}

// retention returns the time for which the result is kept: the number of seconds in override, but
// at least the default time standard. An invalid override is added to found.
func retention(found *httpx.Problems, override httpx.Optional[int64], standard time.Duration) time.Duration {
	if !override.Set {
		return standard
	}
	if override.Value < 1 || override.Value > maxTTLOverride {
		found.Add("ttlOverride", httpx.CodeInvalidValue, "must be a whole number of seconds from 1 to %d", maxTTLOverride)
		return standard
	}
	return max(standard, time.Duration(override.Value)*time.Second)
}

// trigger reads the headers with the type of the trigger and the name of the automation, which
// callers may choose freely. The type is "api" without the header. The name is "" without the
// header. Problems are added to found under the headers' names in lower case.
func trigger(found *httpx.Problems, c *gin.Context) (kind, automation string) {
	kind = "api"
	if values := c.Request.Header.Values("X-Trigger-Type"); len(values) > 0 {
		kind = values[0]
		if len(values) > 1 {
			found.Add("x-trigger-type", httpx.CodeDuplicate, "must be sent only once")
		} else if !triggerTypes.MatchString(kind) {
			found.Add("x-trigger-type", httpx.CodeInvalidValue, "must be 1 to 32 characters of a-z, 0-9, _ and -, starting with a letter")
		}
	}

	values := c.Request.Header.Values("X-Automation-Id")
	switch len(values) {
	case 0:
		return kind, ""
	case 1:
		httpx.CheckAutomationID(found, "x-automation-id", values[0])
	default:
		found.Add("x-automation-id", httpx.CodeDuplicate, "must be sent only once")
	}
	return kind, values[0]
}
