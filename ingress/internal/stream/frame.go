package stream

import (
	"parley/shared/domain"
)

// AppendFrame appends an event to b as a server-sent event. It is used for live events and for
// events of a stored log, so that both have the same bytes.
func AppendFrame(b []byte, runID string, e domain.Event) []byte {
	// Clients send this id when they reconnect, to continue after the event.
	b = append(b, "id: "...)
	b = e.ID.Append(b)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: {\"runId\":\""...)
	b = append(b, runID...)
	b = append(b, '"')
	if len(e.Data) > 2 { // longer than {}
		b = append(b, ',')
	}

	// e.Data is a JSON object. Its opening brace is replaced, so that runId becomes the first
	// member.
	b = append(b, e.Data[1:]...)
	return append(b, "\n\n"...)
}
