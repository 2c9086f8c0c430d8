package uistream

import (
	"encoding/json"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/id"
)

// Format is a protocol that a run's events can be told in.
type Format string

// The protocols that there are.
const (
	AISDK Format = "ai-sdk" // the AI SDK's UI message stream, version 1
	AGUI  Format = "ag-ui"  // the Agent-User Interaction Protocol
)

// Formats lists them.
var Formats = []Format{AISDK, AGUI}

// Header is what a stream's response says of its format, beside its content type; empty for nothing.
func (f Format) Header() (name, value string) {
	if f == AISDK {
		return "X-Vercel-Ai-Ui-Message-Stream", "v1"
	}
	return "", ""
}

// Reader is who a run is told to, and what they know of it.
type Reader struct {
	Format   Format
	ThreadID string         // what the reader calls the session; empty: as we do
	RunID    string         // what the reader calls the run; empty: as we do
	Last     domain.EventID // the last event that the reader has; the zero value is none
}

// Encoder tells one run to one reader. It must be given the run's log from its beginning, whatever the reader has of it.
type Encoder struct {
	runID   string
	reader  Reader
	dialect dialect
	told    stream.Told
	calls   map[string]*toldCall
	called  int             // calls that were told of
	cited   map[string]bool // by citation
	sources map[int]bool    // by number
	texts   int             // pieces of text that were begun
	open    bool            // the last of them has not ended
	reached bool            // the log has the reader's last event
	lost    bool            // the log lacks what the reader was told
	done    bool
}

// dialect says a piece in the words of a protocol.
type dialect interface {
	chunks(piece any) []any
	last() string // what ends a stream, behind its last chunk; empty for nothing
}

// New makes the encoder of a run for a reader.
func New(runID string, reader Reader) *Encoder {
	e := &Encoder{
		runID: runID, reader: reader, calls: map[string]*toldCall{}, cited: map[string]bool{}, sources: map[int]bool{},
	}
	if reader.Format == AGUI {
		e.dialect = agui{runID: id.Suffix(runID)}
	} else {
		e.dialect = aisdk{}
	}
	return e
}

// Append writes what an event tells the reader to b, which may be nothing, and reports whether that was the end.
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

// Cut writes to b that the stream ends before its run does.
func (e *Encoder) Cut(b []byte) []byte {
	if e.done {
		return b
	}
	return e.write(b, e.breakOff("stream_cut", "The stream was cut off; the run goes on, and reading it again tells all of it."), "")
}

// write writes chunks as server-sent events. The last one has the event's id: who was cut off before it is told all of them
// again.
func (e *Encoder) write(b []byte, pieces []any, eventID string) []byte {
	var data [][]byte
	for _, piece := range pieces {
		for _, chunk := range e.dialect.chunks(piece) {
			encoded, err := json.Marshal(chunk)
			if err != nil {
				continue // not reached: what the service has rendered can be rendered again
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
