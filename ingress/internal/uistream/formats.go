package uistream

import (
	"encoding/json"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/id"
)

// Format is a protocol for a run's events.
type Format string

// The supported protocols.
const (
	AISDK Format = "ai-sdk" // the AI SDK's UI message stream, version 1
	AGUI  Format = "ag-ui"  // the Agent-User Interaction Protocol
)

// Formats lists the supported protocols.
var Formats = []Format{AISDK, AGUI}

// Header returns the header that marks a response as this format, or empty strings if the format
// has none.
func (f Format) Header() (name, value string) {
	if f == AISDK {
		return "X-Vercel-Ai-Ui-Message-Stream", "v1"
	}
	return "", ""
}

// Reader identifies a client of a stream, its names for session and run, and the last event that it
// received.
type Reader struct {
	Format   Format
	ThreadID string         // the client's name for the session; empty: the session's id
	RunID    string         // the client's name for the run; empty: the run's id
	Last     domain.EventID // the last event received; zero: none
}

// Encoder encodes one run for one reader. The encoder must get the run's log from the beginning,
// even if the reader already has a part of it.
type Encoder struct {
	runID     string
	reader    Reader
	dialect   dialect
	eventData stream.SentText
	calls     map[string]*sentCall
	called    int             // calls returned
	cited     map[string]bool // citations already sent
	sources   map[int]bool    // numbers of sources already sent
	texts     int             // pieces of text begun
	open      bool            // the last text part has not ended
	reached   bool            // the log contains the reader's last event
	lost      bool            // the log lacks events that the reader has received
	answered  bool            // the validated answer was sent
	done      bool
}

// dialect encodes a piece in a protocol.
type dialect interface {
	chunks(piece any) []any
	last() string // the end of a stream, sent after its last chunk; empty: none
}

// New returns the encoder of a run for a reader.
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

// Append appends the encoding of an event to b, which may be empty. It reports whether the stream
// has ended.
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

// Cut appends an error to b which says that the stream ends before its run.
func (e *Encoder) Cut(b []byte) []byte {
	if e.done {
		return b
	}
	return e.write(b, e.breakOff("stream_cut", "The stream was interrupted; the run continues, and reading it again returns everything."), "")
}

// write appends chunks as server-sent events. Only the last chunk has the event's id, so a reader
// that is disconnected in between receives all of these chunks again.
func (e *Encoder) write(b []byte, pieces []any, eventID string) []byte {
	var data [][]byte
	for _, piece := range pieces {
		for _, chunk := range e.dialect.chunks(piece) {
			encoded, err := json.Marshal(chunk)
			if err != nil {
				continue // unreachable: rendered pieces can be encoded
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
