package agent

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

// previewBody is the body of POST /api/agents?id=&action=preview. The input has the form of a run's
// input.
type previewBody struct {
	// Prompt to preview instead of the agent's.
	SystemPrompt httpx.Optional[string] `json:"systemPrompt"`
	// Input of the run: the member message is the run's message, and the other members are values
	// of variables.
	Input httpx.Optional[map[string]json.RawMessage] `json:"input"`
	// Session in which the run would be.
	SessionID httpx.Optional[string] `json:"sessionId"`
}

// Check checks the fields. All of them may be missing. The prompt follows the same rules as a
// stored prompt.
func (b *previewBody) Check(p *httpx.Problems) {
	if b.SystemPrompt.Set {
		p.Text("systemPrompt", b.SystemPrompt.Value, 1, maxPrompt)
		if err := domain.CheckPrompt(b.SystemPrompt.Value); err != nil {
			p.Add("systemPrompt", httpx.CodeInvalidValue, "%s", err)
		}
	}
	if b.SessionID.Set {
		runbody.CheckSession(p, "sessionId", b.SessionID.Value)
	}
}

// exampleSession is the session id in the preview if the request names no session.
const exampleSession = "(session id)"

// values returns the values that the prompt variables would have in a run that starts now with the
// input in the body. It removes the message from b.Input, because PromptValues has separate fields
// for the message and the rest of the input. Problems are added to p.
func (b *previewBody) values(organization string, p *httpx.Problems) domain.PromptValues {
	values := domain.PromptValues{Organization: organization, Now: time.Now(), SessionID: b.SessionID.Or(exampleSession)}
	if raw, ok := b.Input.Value["message"]; ok {
		if json.Unmarshal(raw, &values.Message) != nil {
			p.Add("input.message", httpx.CodeInvalidType, "must be a string")
		}
		delete(b.Input.Value, "message")
	}

	// The values are raw JSON, so encoding fails only if one of them is not valid JSON.
	var err error
	if values.Input, err = json.Marshal(b.Input.Value); err != nil {
		p.Add("input", httpx.CodeInvalidValue, "contains a value that is not valid JSON")
	}
	return values
}

// promptPreview is a system prompt with the values of its variables. It is the complete text that
// the model would get as its system prompt.
type promptPreview struct {
	SystemPrompt string `json:"systemPrompt"`
}

// previewPrompt handles POST /api/agents?id=&action=preview: it returns the system prompt that a
// run with the given input would have, with the values of its variables. The prompt comes from the
// body or, if the body has none, from the agent. The preview starts no run and calls no model.
// Members may use it, because they can read the prompt anyway.
func (h *Handler) previewPrompt(c *gin.Context) error {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		return err
	}

	httpx.SetLogIDs(c, agentID, "", "")
	body, err := httpx.Bind[previewBody](c)
	if err != nil {
		return err
	}

	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	agent, err := h.AgentsDB.Agent(ctx, org, agentID)
	if err != nil {
		return err
	}
	organization, err := h.Organizations.Organization(ctx, org)
	if err != nil {
		return err
	}

	// The name of the organization is one of the values.
	found := &httpx.Problems{}
	values := body.values(organization.Name, found)
	if err := found.Err(); err != nil {
		return err
	}

	// Long values of variables can make a short prompt long, so the limit for the result is checked
	// here.
	filled, err := domain.FillPrompt(body.SystemPrompt.Or(agent.SystemPrompt), values)
	if err != nil {
		return apierr.Invalid("systemPrompt", httpx.CodeTooLong,
			"must have at most %d characters after its variables are replaced by their values", domain.MaxFilledPrompt)
	}

	return httpx.JSON(c, http.StatusOK, promptPreview{filled})
}
