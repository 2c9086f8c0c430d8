package stream

import (
	"parley/shared/contract"
	"parley/shared/domain"
)

// place is where a reader stands in a run's log: behind its last event.
type place struct{ last domain.EventID }

// logged takes the log, or the end of it, as it was read, and gives the events that are new to the reader.
func (p *place) logged(events []domain.Event) []domain.Event {
	events = p.fresh(events)
	if n := len(events); n > 0 {
		p.last = events[n-1].ID
	}
	return events
}

// heard takes a message of events and gives those that are new. A gap means that something before them is
// missing: the message is to be taken again when the log has been read.
func (p *place) heard(message []byte) (events []domain.Event, gap bool, err error) {
	chunk, err := contract.ParseEventMessage(message)
	if err != nil {
		return nil, false, err
	}
	first := domain.EventID{Fence: chunk.Fence, N: chunk.First}
	if len(chunk.Lines) == 0 { // a notice: too large for a message
		return nil, first.After(p.last), nil
	}
	if chunk.Fence < p.last.Fence {
		return nil, false, nil // of an attempt that is void
	}
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

// fresh leaves out the events up to the last.
func (p *place) fresh(events []domain.Event) []domain.Event {
	for i, e := range events {
		if e.ID.After(p.last) {
			return events[i:]
		}
	}
	return nil
}
