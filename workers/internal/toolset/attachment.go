package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"parley/shared/contract"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/attachment"
)

// PrepareAttachment asks a tool worker to convert or read an attachment of the run in its sandbox.
// If it returns a *tool.Error that is not retryable, the error states why the attachment cannot be
// used.
func (t *Tools) PrepareAttachment(ctx context.Context, run Run, args attachment.Arguments) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encoding arguments: %w", err)
	}
	answer, err := t.ask(ctx, run, contract.ToolAttachment, contract.ToolRequest{
		Operation: contract.OperationCall, CallID: contract.ToolAttachment + ":" + args.FileID, Name: contract.ToolAttachment, Arguments: raw,
	})
	switch {
	case err != nil:
		return unreachable(err)
	case answer.Failure == nil:
		return nil
	case answer.Failure.Stale, answer.Failure.Retryable:
		return unreachable(errors.New(answer.Failure.Message))
	default:
		return &tool.Error{Message: answer.Failure.Message}
	}
}
