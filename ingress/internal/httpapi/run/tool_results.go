package run

import (
	"encoding/json"
	"strconv"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/rundb"
)

// toolResultsBody is the body of POST /api/runs?action=tool-results.
type toolResultsBody struct {
	Results []toolResultBody `json:"results" required:"true"`
}

// toolResultBody is the result of a tool call that the client has executed. Output may be any JSON
// value. If IsError is true, Output describes the failure.
type toolResultBody struct {
	ToolCallID string               `json:"toolCallId" required:"true"`
	Output     json.RawMessage      `json:"output" required:"true"`
	IsError    httpx.Optional[bool] `json:"isError"`
}

// results checks the results in the body and returns them. Problems are added to found. The store
// checks whether the run waits for these calls.
func (b *toolResultsBody) results(found *httpx.Problems) []domain.ClientResult {
	switch n := len(b.Results); {
	case n > domain.MaxClientTools:
		found.Count("results", n, domain.MaxClientTools)
	case n == 0 && !found.Has("results"):
		found.Add("results", httpx.CodeTooShort, "must have at least one result")
	}

	results, seen := make([]domain.ClientResult, len(b.Results)), map[string]bool{}
	for i, r := range b.Results {
		field := "results[" + strconv.Itoa(i) + "].toolCallId"
		if !found.Has(field) {
			found.Text(field, r.ToolCallID, 1, maxToolCall)
		}
		if seen[r.ToolCallID] {
			found.Add(field, httpx.CodeDuplicate, "has more than one result in this request")
		}
		seen[r.ToolCallID] = true
		results[i] = domain.ClientResult{ToolCallID: r.ToolCallID, Output: r.Output, IsError: r.IsError.Value}
	}
	return results
}

// takeResults handles POST /api/runs?action=tool-results: it takes the results of the tool calls
// for which a run waits. The run's client has executed these calls. The run continues when all
// results are stored. The response is the run.
func (h *Handler) takeResults(c *gin.Context) {
	runID, err := httpx.RequiredID(c, id.Run)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	body, found, err := httpx.CollectMessage[toolResultsBody](c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	results := body.results(found)
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	who := httpx.Caller(c)
	var run rundb.StoredRun
	err = findReadable(who, func(principal string) (err error) {
		run, err = h.Dispatch.TakeResults(c.Request.Context(), dispatch.Answer{
			OrganizationID: who.OrganizationID, Principal: principal, RunID: runID, By: who.Principal(),
		}, results)
		return err
	})

	// The results are stored or rejected, so the body is no longer needed.
	httpx.ReleaseBody(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.SetLogIDs(c, run.Target(), run.Run.ID, run.Run.SessionID)
	h.writeRun(c, run)
}
