package embedserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/store/budgetdb"
	"parley/workers/internal/charge"
	"parley/workers/internal/embed"
	"parley/workers/internal/llm"
)

// embed computes the vectors of a request's texts and charges the organization. If a budget has no
// room, the reply names the budget, and the model is not called. An error that is not an *llm.Error
// is internal.
//
// After a failed call, the maximum stays charged, unless the service has certainly done no work.
func (s *Server) embed(ctx context.Context, claims contract.EmbedClaims, r contract.EmbedRequest) (contract.EmbedReply, error) {
	model, err := s.deps.Embedder.Find(r.Model)
	if err != nil {
		return contract.EmbedReply{}, err
	}

	account := charge.New(s.deps.Budgets, budgetdb.Call{
		OrganizationID: claims.OrganizationID, KeyID: claims.KeyID, StartedAt: time.Now(),
	})
	maximum := s.amounts(model, maxTokens(r.Texts))
	lacking, err := account.Reserve(ctx, maximum)
	switch {
	case err != nil:
		return contract.EmbedReply{}, fmt.Errorf("reserving tokens: %w", err)
	case lacking != nil:
		return contract.EmbedReply{Lacking: &lacking.Budget, Later: lacking.Later}, nil
	}

	found, err := s.guarded(ctx, embed.Request{Model: r.Model, Texts: r.Texts, Dimensions: r.Dimensions})
	if err != nil {
		if e, ok := errors.AsType[*llm.Error](err); ok && e.Unused {
			maximum = budgetdb.Amounts{}
		}
		account.Charge(ctx, maximum, budgetdb.CallUsage{}) // charge the maximum, because the service may have done all the work
		return contract.EmbedReply{}, err
	}

	used := s.amounts(model, found.InputTokens)
	charged := used
	if found.Estimated {
		charged = maximum // charge the maximum: the estimate may be too low, and a budget must never be exceeded
	}
	account.Charge(ctx, charged, budgetdb.CallUsage{InputTokens: used.Tokens, CostMicros: used.CostMicros})
	return contract.EmbedReply{Model: model, Vectors: packed(found.List), InputTokens: found.InputTokens}, nil
}

// amounts returns the amounts that a call with the given number of input tokens consumes. The cost
// is in millionths of the currency unit.
func (s *Server) amounts(model string, tokens int64) budgetdb.Amounts {
	return budgetdb.Amounts{Tokens: tokens, CostMicros: s.deps.Price(model, llm.Usage{InputTokens: tokens})}
}

// maxTokens returns an upper bound for the number of tokens in texts. Each token has at least one
// byte, so a text has at most as many tokens as bytes. An overhead is added for each text.
func maxTokens(texts []string) (n int64) {
	for _, text := range texts {
		n += int64(len(text)) + llm.MessageOverhead
	}
	return n
}

// packed encodes vectors for a reply. A number is encoded as four bytes in little-endian order.
func packed(vectors [][]float32) [][]byte {
	out := make([][]byte, len(vectors))
	for i, vector := range vectors {
		out[i] = make([]byte, 0, 4*len(vector))
		for _, x := range vector {
			out[i] = binary.LittleEndian.AppendUint32(out[i], math.Float32bits(x))
		}
	}
	return out
}

// failure converts an error to the failure that the caller receives. Errors of the service keep
// their messages, which are public. Any other error becomes "unavailable".
func failure(err error) *contract.EmbedFailure {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return &contract.EmbedFailure{Code: apierr.Unavailable, Message: "embeddings are unavailable; try again shortly"}
	}

	f := &contract.EmbedFailure{Code: apierr.Unavailable, Message: e.Error(), RetryAfter: e.RetryAfter}
	switch e.Kind {
	case llm.KindNotConfigured, llm.KindUnknownModel:
		// If the service responded, the field Provider is set. The response means that the service
		// does not know the configured model. This is the operator's mistake and not the caller's.
		if e.Provider == nil {
			f.Code, f.Field = apierr.NotFound, "model"
		}
	case llm.KindInvalid, llm.KindContextLength, llm.KindTooLarge:
		f.Code, f.Field = apierr.InvalidRequest, "input"
		f.Message = "the embeddings service rejects these texts or dimensions; one text may be too long for the model"
	case llm.KindRateLimited:
		f.Code = apierr.RateLimited
	default:
	}
	return f
}
