package stream

import (
	"parley/shared/domain"
)

// AppendFrame appends an event to b as a server-sent event. Live events and events of a stored log
// both use it, so their bytes are the same.
func AppendFrame(b []byte, runID string, e domain.Event) []byte {
	// Clients send the id of the last event when they reconnect.
	b = append(b, "id: "...)
	b = e.ID.Append(b)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: {\"runId\":\""...)
	b = append(b, runID...)
	b = append(b, '"')
	if len(e.Data) > 2 { // more than {}
		b = append(b, ',')
	}

	// e.Data is a JSON object. Its opening brace is replaced, so runId becomes its first member.
	b = append(b, e.Data[1:]...)
	return append(b, "\n\n"...)
}
