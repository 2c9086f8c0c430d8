package stream

import (
	"encoding/json"
	"fmt"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// eventsFor gives a run's log as far as it is stored: what its row tells, and the chunks of its last attempt that
// has any. The same row and chunks give the same events at every reading.
func eventsFor(log *executiondb.EventLog) ([]domain.Event, error) {
	run := log.Run.Run
	created, err := domain.CreatedEvent(run)
	if err != nil {
		return nil, err
	}
	events := []domain.Event{created}
	if run.StartedAt != nil {
		events = append(events, domain.StartedEvent(*run.StartedAt))
	}
	for _, stored := range log.Chunks {
		told, err := domain.EventChunk{Fence: log.Fence, First: stored.FirstN, Lines: []byte(stored.Events)}.Events()
		if err != nil {
			return nil, fmt.Errorf("reading log of run %s: %w", run.ID, err)
		}
		events = append(events, told...)
	}
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

// simpleEnd is where a log ends whose first attempt told nothing but the whole answer in one piece. Such logs
// are most, and what they tell is in the run's result: no chunk is stored for them.
var simpleEnd = domain.EventID{Fence: 1, N: 3}

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
