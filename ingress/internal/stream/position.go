package stream

import (
	"parley/shared/contract"
	"parley/shared/domain"
)

// position is the position of a reader in a run's log, which is after the last event that it has
// returned. It is used by one goroutine. The zero value is the beginning of the log.
type position struct{ last domain.EventID }

// logged takes the events of a stored log. It returns the events that are new to the reader. The
// position moves to the last event returned.
func (p *position) logged(events []domain.Event) []domain.Event {
	events = p.fresh(events)
	if n := len(events); n > 0 {
		p.last = events[n-1].ID
	}
	return events
}

// receive takes a message from the bus. It returns the message's events that are new to the reader.
// gap is set if earlier events are missing. The caller must then read the log and pass the message
// again. The position moves to the last event that is returned. An error means that the message is
// malformed.
func (p *position) receive(message []byte) (events []domain.Event, gap bool, err error) {
	chunk, err := contract.ParseEventMessage(message)
	if err != nil {
		return nil, false, err
	}

	first := domain.EventID{Fence: chunk.Fence, N: chunk.First}
	if len(chunk.Lines) == 0 { // the message only reports that its events were too large to be sent
		return nil, first.After(p.last), nil
	}

	if chunk.Fence < p.last.Fence {
		return nil, false, nil // the message is from an attempt that was abandoned
	}

	// The message may repeat events that the reader has already read from the log.
	if events, err = chunk.Events(); err != nil {
		return nil, false, err
	}
	events = p.fresh(events)

	switch {
	case len(events) == 0:
		return nil, false, nil
	case !events[0].ID.Follows(p.last):
		return nil, true, nil
	}
	p.last = events[len(events)-1].ID
	return events, false, nil
}

// fresh returns the events after the reader's position. It does not move the position.
func (p *position) fresh(events []domain.Event) []domain.Event {
	for i, e := range events {
		if e.ID.After(p.last) {
			return events[i:]
		}
	}
	return nil
}
