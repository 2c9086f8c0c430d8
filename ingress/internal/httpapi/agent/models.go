package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
)

const (
	listTime = 8 * time.Second // timeout for a call to a worker, which calls model providers
	// Retry-After if the list is unavailable.
	listRetry = 5 * time.Second
)

// listModels handles GET /api/agents/models: it lists the models that agents can use. An agent
// worker supplies the list, because only agent workers have the providers' API keys. The error is
// unavailable if no worker responds within listTime. The list is not cached here.
func (h *Handler) listModels(c *gin.Context) error {
	list, err := h.callListModels(c.Request.Context(), httpx.Caller(c).OrganizationID)
	if err != nil {
		failed := apierr.Wrap(apierr.Unavailable, err, "the list of models is unavailable: no worker with the role agent has responded")
		failed.RetryAfter = listRetry
		return failed
	}
	return httpx.JSON(c, http.StatusOK, list)
}

// callListModels asks a worker for the list. The call ends after listTime, or when the caller
// disconnects.
func (h *Handler) callListModels(ctx context.Context, org string) (domain.ModelList, error) {
	deadline := time.Now().Add(listTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	claims, err := json.Marshal(contract.ListModelsClaims{OrganizationID: org, Kind: contract.KindListModels, Expires: deadline.UTC()})
	if err != nil {
		return domain.ModelList{}, fmt.Errorf("writing claims: %w", err)
	}

	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	answer, err := h.Workers.Call(ctx, contract.KindListModels, h.Signer.Sign(claims, nil), nil, deadline)
	if err != nil {
		return domain.ModelList{}, fmt.Errorf("calling a worker: %w", err)
	}

	var reply contract.ModelListReply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return domain.ModelList{}, fmt.Errorf("reading the list of models: %w", err)
	}
	return reply.List, nil
}
