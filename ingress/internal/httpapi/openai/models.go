package openai

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	maxModels     = 1_000    // maximum number of models listed, because the protocol does not divide the list into pages
	templateOwner = "parley" // owner of templates
)

// listModels handles GET /v1/models: it lists the newest agents that people may chat with. Agents
// that only automations may call are omitted. Templates are not listed, but can be used.
func (h *Handler) listModels(c *gin.Context) {
	org := httpx.Caller(c).OrganizationID
	agents, err := h.AgentsDB.CallableAgents(c.Request.Context(), org, domain.CallerUser, maxModels)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	models := make([]openaiapi.Model, len(agents))
	for i, agent := range agents {
		models[i] = openaiapi.NewModel(agent.ID, agent.Name, org, agent.CreatedAt.Time)
	}

	httpx.WriteJSON(c, http.StatusOK, openaiapi.NewModelList(models))
}

// getModel handles GET /v1/models/<id>: it returns an agent that people may chat with, or a
// template. For an unknown model, the error is the same as in OpenAI's API.
func (h *Handler) getModel(c *gin.Context) {
	model, err := h.findModel(c, c.Param("id"))
	if err != nil {
		httpx.Fail(c, openaiapi.AsModelError(err))
		return
	}
	httpx.WriteJSON(c, http.StatusOK, model)
}

// findModel returns the agent or template with the id, in the form of a model. Agents of other
// organizations and agents for automations only are not found.
func (h *Handler) findModel(c *gin.Context, modelID string) (openaiapi.Model, error) {
	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	if !id.Valid(id.Agent, modelID) {
		return h.templateModel(c, modelID)
	}

	agent, err := h.AgentsDB.Agent(ctx, org, modelID)
	if err != nil {
		return openaiapi.Model{}, err
	}
	if !slices.Contains(agent.AllowedCallers, domain.CallerUser) {
		return openaiapi.Model{}, openaiapi.ModelNotFound() // as in listModels, which omits the agent
	}

	httpx.SetLogIDs(c, agent.ID, "", "")
	return openaiapi.NewModel(agent.ID, agent.Name, org, agent.CreatedAt.Time), nil
}

// templateModel returns a template as a model. Templates come from the cache, and have no time of
// creation.
func (h *Handler) templateModel(c *gin.Context, modelID string) (openaiapi.Model, error) {
	all, err := h.Templates.Get(c.Request.Context())
	if err != nil {
		return openaiapi.Model{}, err
	}
	for _, t := range all {
		if t.ID == modelID {
			return openaiapi.NewModel(t.ID, t.Name, templateOwner, time.Time{}), nil
		}
	}
	return openaiapi.Model{}, openaiapi.ModelNotFound()
}
