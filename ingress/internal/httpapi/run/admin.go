package run

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// Admins see the response with which a model provider refused a call. It is not in the stored run,
// which members and the receivers of events and notifications read. Responses to admins add it.

// seesProviders reports whether the caller may see the responses of model providers.
func seesProviders(who domain.Caller) bool {
	return who.Visitor.ID == "" && who.Role.AtLeast(domain.RoleAdmin)
}

// failedStatus is the beginning of a rendered run that has failed, after its id.
var failedStatus = []byte(`","status":"failed",`)

// withProvider returns a run object as the caller may see it: for an admin, the error of a failed
// run has the provider's response, if there was one.
func (h *Handler) withProvider(c *gin.Context, body []byte) []byte {
	who := httpx.Caller(c)
	// Most runs have not failed, and large ones are expensive to decode.
	if !seesProviders(who) || !bytes.Contains(body[:min(len(body), 100)], failedStatus) {
		return body
	}

	explained, err := explainFailure(c.Request.Context(), h.RunsDB, who.OrganizationID, body)
	if err != nil {
		h.Log.Warn().Err(err).Msg("cannot read why a provider refused; answering without it")
		return body
	}
	return explained
}

// explainFailure adds the provider's response to the error of a failed run.
func explainFailure(ctx context.Context, runs *rundb.Store, org string, body []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil || run.Error == nil {
		return body, err
	}

	refusal, err := runs.Refusal(ctx, org, run.ID, run.Error.Code)
	if err != nil || refusal == nil {
		return body, err
	}

	run.Error.Provider = refusal
	return run.Render()
}
