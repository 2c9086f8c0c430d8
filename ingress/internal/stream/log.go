package stream

import (
	"encoding/json"
	"fmt"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// eventsFor returns the stored part of a run's log. It consists of events derived from the run's
// row and of the chunks of the last attempt that has chunks. The same row and chunks always produce
// the same events. eventsFor returns an error if stored data cannot be decoded.
func eventsFor(log *executiondb.EventLog) ([]domain.Event, error) {
	run := &log.Run.Run

	// The first two events are not stored, because the run's row contains the same data.
	created, err := domain.CreatedEvent(run)
	if err != nil {
		return nil, err
	}
	events := []domain.Event{created}
	if run.StartedAt != nil {
		events = append(events, domain.StartedEvent(*run.StartedAt))
	}

	for _, stored := range log.Chunks {
		sent, err := domain.EventChunk{Fence: log.Fence, First: stored.FirstN, Lines: []byte(stored.Events)}.Events()
		if err != nil {
			return nil, fmt.Errorf("reading log of run %s: %w", run.ID, err)
		}
		events = append(events, sent...)
	}

	// The run has not finished, so its log has no last event yet.
	if log.EndFence == 0 {
		return events, nil
	}
	result, err := log.Run.Result()
	if err != nil {
		return nil, err
	}

	end := domain.EventID{Fence: log.EndFence, N: log.EndN}
	if log.Fence == 0 && end == simpleEnd {
		delta, err := wholeAnswer(result)
		if err != nil {
			return nil, err
		}
		events = append(events, delta...)
	}
	return append(events, domain.EndedEvent(end, run.Status, result)), nil
}

// simpleEnd is the id of the last event of a log whose only attempt published its answer in one
// piece. Most logs are of this kind. No chunk is stored for such a log, because its events are
// derived from the run's result.
var simpleEnd = domain.EventID{Fence: 1, N: 3}

// wholeAnswer returns the only delta event of a simple log, which contains the answer in the run's
// result. It returns nil if the answer is empty.
func wholeAnswer(result []byte) ([]domain.Event, error) {
	var run struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(result, &run); err != nil {
		return nil, fmt.Errorf("reading result: %w", err)
	}
	if run.Message == "" {
		return nil, nil
	}
	data, err := domain.DeltaData(run.Message)
	if err != nil {
		return nil, err
	}
	return []domain.Event{{ID: domain.EventID{Fence: 1, N: 2}, Type: domain.EventMessageDelta, Data: data}}, nil
}
