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

// If a model provider rejects a call, only admins may see its response. The stored run does not
// contain it, because members and the receivers of events and notifications read that run. It is
// added to the responses to admins.

// seesProviders reports whether the caller may see the responses of model providers.
func seesProviders(who domain.Caller) bool {
	return who.Visitor.ID == "" && who.Role.AtLeast(domain.RoleAdmin)
}

// failedStatus follows the id at the beginning of the JSON of a failed run.
var failedStatus = []byte(`","status":"failed",`)

// withProvider returns a run object in the form that the caller may see. For admins, it adds the
// provider's response, if there is one, to the error of a failed run.
func (h *Handler) withProvider(c *gin.Context, body []byte) []byte {
	who := httpx.Caller(c)
	// Decode only failed runs: most runs have not failed, and decoding a large one is expensive.
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
