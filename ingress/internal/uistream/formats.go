package uistream

import (
	"encoding/json"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/id"
)

// Format names a protocol in which the events of a run can be encoded. Clients choose it by a
// parameter or by the Accept header.
type Format string

// These constants are the supported protocols.
const (
	AISDK Format = "ai-sdk" // the AI SDK's UI message stream, version 1
	AGUI  Format = "ag-ui"  // the Agent-User Interaction Protocol
)

// Formats lists the supported protocols.
var Formats = []Format{AISDK, AGUI}

// Header returns the response header that identifies the format, or two empty strings if the format
// has no such header. The AI SDK's client requires the header.
func (f Format) Header() (name, value string) {
	if f == AISDK {
		return "X-Vercel-Ai-Ui-Message-Stream", "v1"
	}
	return "", ""
}

// Reader describes the client of a stream: its names for session and run, and the last event that
// it has received. It is read from the request.
type Reader struct {
	// Protocol of the stream.
	Format   Format
	ThreadID string         // client's name for the session; empty: the session's id
	RunID    string         // client's name for the run; empty: the run's id
	Last     domain.EventID // last event that the client has received; zero: none
}

// Encoder encodes one run for one client. It must receive the run's log from the beginning, even if
// the client has already received a part of it. It is used by one goroutine.
type Encoder struct {
	runID  string
	reader Reader // client of the stream
	// Encodes pieces in the client's protocol.
	dialect dialect
	// Text that was sent.
	eventData stream.SentText
	// Calls that were sent, by id.
	calls    map[string]*sentCall
	called   int             // number of tool calls sent
	cited    map[string]bool // citations that were sent
	sources  map[int]bool    // numbers of the sources that were sent
	texts    int             // number of text parts begun
	open     bool            // whether the last text part has no end yet
	reached  bool            // whether the log has reached the last event that the client received
	lost     bool            // whether the log lacks events that the client has received
	answered bool            // whether the validated answer was sent
	// Whether the stream has ended.
	done bool
}

// dialect encodes pieces of a stream in one protocol. Implementations have no state of the stream.
type dialect interface {
	// chunks returns the chunks of a piece, as values that are encoded as JSON.
	chunks(piece any) []any
	last() string // last returns the data that follows the last chunk to mark the end of a stream; empty: none
}

// New returns an encoder of a run's events for a client. Any format of the reader other than AGUI
// counts as AISDK.
func New(runID string, reader Reader) *Encoder {
	e := &Encoder{
		runID: runID, reader: reader, calls: map[string]*sentCall{}, cited: map[string]bool{}, sources: map[int]bool{},
	}
	if reader.Format == AGUI {
		e.dialect = agui{runID: id.Suffix(runID)}
	} else {
		e.dialect = aisdk{}
	}
	return e
}

// Append appends the encoding of an event to b, which may be empty. ended reports whether the
// stream ends with this event. An event that the client has received already changes only the state
// of the encoder. An error ends the stream.
func (e *Encoder) Append(b []byte, event domain.Event) (out []byte, ended bool, err error) {
	if e.done {
		return b, true, nil
	}
	pieces, err := e.digest(event)
	if err != nil {
		return b, false, err
	}
	if event.ID.After(e.reader.Last) {
		b = e.write(b, pieces, event.ID.String())
	}
	return b, e.done, nil
}

// Cut appends an error to b. The error says that the stream ends although the run continues. Cut
// does nothing after the end of the stream.
func (e *Encoder) Cut(b []byte) []byte {
	if e.done {
		return b
	}
	return e.write(b, e.breakOff("stream_cut", "The stream was interrupted; the run continues, and reading it again returns everything."), "")
}

// write appends the chunks of pieces as server-sent events. Only the last chunk has the event's id.
// If the client is disconnected before this chunk, it therefore receives all chunks again. At the
// end of the stream, write also appends the protocol's mark for the end.
func (e *Encoder) write(b []byte, pieces []any, eventID string) []byte {
	var data [][]byte
	for _, piece := range pieces {
		for _, chunk := range e.dialect.chunks(piece) {
			encoded, err := json.Marshal(chunk)
			if err != nil {
				continue // all pieces have a JSON form, so this is unreachable
			}
			data = append(data, encoded)
		}
	}

	if last := e.dialect.last(); e.done && last != "" {
		data = append(data, []byte(last))
	}
	for i, line := range data {
		if i == len(data)-1 && eventID != "" {
			b = append(append(append(b, "id: "...), eventID...), '\n')
		}
		b = append(append(append(b, "data: "...), line...), "\n\n"...)
	}
	return b
}
