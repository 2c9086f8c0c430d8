package httpapi

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/contract"
	"parley/shared/domain"
)

const (
	messageMax   = 32_000 // characters
	sessionIDMax = 128

	keyMax         = 255
	ttlOverrideMax = 2_592_000 // seconds: 30 days
)

// automationScope is what an automation's idempotency key is unique in, beside organization and endpoint: all keys of the organization
// together, or the user whose key calls.
func automationScope(who domain.Caller) string {
	if who.UserID == "" {
		return dispatch.OrganizationScope
	}
	return "user:" + who.UserID
}

var triggerTypes = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// automationBody is what run-automation is sent.
type automationBody struct {
	Target         string                     `json:"target" need:"yes"`
	Input          map[string]json.RawMessage `json:"input" need:"yes"`
	IdempotencyKey httpx.Optional[string]     `json:"idempotencyKey"`
	TTLOverride    httpx.Optional[int64]      `json:"ttlOverride"`
	SessionID      httpx.Optional[string]     `json:"sessionId"`
}

// runAutomation runs an agent as a system caller.
func (a *api) runAutomation(c *gin.Context) {
	if s := a.automationOf(c); s != nil {
		a.submit(c, s)
	}
}

// automationOf reads what is submitted; nil once it was refused. It stands apart so that a request that waits for its run keeps no
// place on the stack for it: thousands may wait.
func (a *api) automationOf(c *gin.Context) *dispatch.Submission {
	body, found, err := httpx.Collect[automationBody](c)
	if err != nil {
		httpx.Fail(c, err)
		return nil
	}
	who := httpx.Caller(c)
	s := a.automation(who, body.Target)
	if !who.MayRead(domain.SystemPrincipal) { // what a member triggers is the member's own
		s.Principal = who.AutomationPrincipal()
	}
	s.KeyScope = automationScope(who)
	s.Key, s.SessionID = idempotencyKey(found, c, body.IdempotencyKey), body.SessionID.Value
	s.Retention = retention(found, body.TTLOverride, a.RetentionDefault)
	s.Message, s.Data = automationInput(found, body.Input)
	s.TriggerType, s.AutomationID = trigger(found, c)
	if body.SessionID.Set {
		checkSession(found, body.SessionID.Value)
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return nil
	}
	return &s
}

// automation is what every system caller submits: by run-automation, or by the deliveries of a hook.
func (a *api) automation(who domain.Caller, agentID string) dispatch.Submission {
	return dispatch.Submission{
		Endpoint: contract.EndpointAutomation, Lane: domain.LaneAutomation, Caller: who, Principal: domain.SystemPrincipal,
		AgentID: agentID, Retention: a.RetentionDefault,
	}
}

// automationInput takes message out of input; what else input has is passed to the agent as data.
func automationInput(found *httpx.Problems, input map[string]json.RawMessage) (message string, data json.RawMessage) {
	raw, ok := input["message"]
	switch {
	case !ok:
		found.Add("input.message", httpx.CodeRequired, "is required")
	case json.Unmarshal(raw, &message) != nil || string(raw) == "null":
		found.Add("input.message", httpx.CodeInvalidType, "must be a string")
	default:
		checkMessage(found, "input.message", message)
	}
	delete(input, "message")
	if len(input) == 0 {
		return message, nil
	}
	data, err := json.Marshal(input)
	if err != nil {
		found.Add("input", httpx.CodeInvalidValue, "input cannot be read")
	}
	return message, data
}

func checkMessage(found *httpx.Problems, field, message string) {
	found.Text(field, message, 1, messageMax)
}

// idempotencyKey reads the key from the body or the header; both may come, if they are the same.
func idempotencyKey(found *httpx.Problems, c *gin.Context, inBody httpx.Optional[string]) string {
	headers := c.Request.Header.Values("Idempotency-Key")
	if len(headers) > 1 {
		found.Add("Idempotency-Key", httpx.CodeDuplicate, "the header was sent more than once")
		return ""
	}
	if inBody.Set {
		checkKey(found, "idempotencyKey", inBody.Value)
		if len(headers) == 1 && headers[0] != inBody.Value {
			found.Add("Idempotency-Key", httpx.CodeConflict, "header and body name different keys")
		}
		return inBody.Value
	}
	if len(headers) == 0 {
		return ""
	}
	checkKey(found, "Idempotency-Key", headers[0])
	return headers[0]
}

func checkKey(found *httpx.Problems, field, key string) { found.Text(field, key, 1, keyMax) }

func checkSession(found *httpx.Problems, sessionID string) {
	found.Text("sessionId", sessionID, 1, sessionIDMax)
}

// retention is how long a result is kept: the default, or longer by ttlOverride in whole seconds.
func retention(found *httpx.Problems, override httpx.Optional[int64], standard time.Duration) time.Duration {
	if !override.Set {
		return standard
	}
	if override.Value < 1 || override.Value > ttlOverrideMax {
		found.Add("ttlOverride", httpx.CodeInvalidValue, "must be a whole number of seconds from 1 to %d", ttlOverrideMax)
		return standard
	}
	return max(standard, time.Duration(override.Value)*time.Second)
}

// trigger reads what kind of trigger calls, and the caller's name for the automation.
func trigger(found *httpx.Problems, c *gin.Context) (kind, automation string) {
	kind = "api"
	if values := c.Request.Header.Values("X-Trigger-Type"); len(values) > 0 {
		kind = values[0]
		if len(values) > 1 || !triggerTypes.MatchString(kind) {
			found.Add("x-trigger-type", httpx.CodeInvalidValue, "must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter")
		}
	}
	values := c.Request.Header.Values("X-Automation-Id")
	if len(values) == 0 {
		return kind, ""
	}
	automation = values[0]
	if len(values) > 1 {
		automation = "" // which none is
	}
	httpx.CheckAutomationID(found, "x-automation-id", automation)
	return kind, automation
}
