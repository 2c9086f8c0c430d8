package stream

import (
	"parley/shared/domain"
)

// AppendFrame appends an event to b as a server-sent event. Live events and the events of stored
// logs are both encoded by this function, so that their bytes are equal. e.Data must be a JSON
// object. An id needs no escapes in JSON.
func AppendFrame(b []byte, runID string, e domain.Event) []byte {
	// A client that reconnects sends the id of its last event, so that the stream continues after
	// that event.
	b = append(b, "id: "...)
	b = e.ID.Append(b)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: {\"runId\":\""...)
	b = append(b, runID...)
	b = append(b, '"')
	if len(e.Data) > 2 { // the object has members
		b = append(b, ',')
	}

	// e.Data is a JSON object. Its opening brace was already written, followed by the member runId.
	b = append(b, e.Data[1:]...)
	return append(b, "\n\n"...)
}
