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

// If a model provider rejects a call, only admins may see the provider's response. It is not part
// of the stored run, because members and the receivers of events and notifications can see the
// stored run. Responses to admins contain it in addition.

// seesProviders reports whether the caller may see the responses of model providers.
func seesProviders(who domain.Caller) bool {
	return who.Visitor.ID == "" && who.Role.AtLeast(domain.RoleAdmin)
}

// failedStatus is the text that follows the id at the beginning of the JSON of a failed run.
var failedStatus = []byte(`","status":"failed",`)

// withProvider returns a run object for the caller. If the caller is an admin and the run has
// failed because of a model provider's response, it adds that response to the run's error.
func (h *Handler) withProvider(c *gin.Context, body []byte) []byte {
	who := httpx.Caller(c)
	// Decode only failed runs, because decoding a large run is expensive and most runs have not
	// failed.
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

// explainFailure adds the model provider's response, if one is stored, to the error of a failed
// run.
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
