package contract

import (
	"bytes"
	"errors"
	"strconv"

	"parley/shared/domain"
)

// RunSubject is where everything about a run is published that its watchers hear: events, and its end.
func RunSubject(runID string) string { return "runs.*." + runID }

// EventMessage is the body in which events are published: a line with fence and number of the first, then the
// chunk's own lines. Without those it is a notice that there are events from that number on, to be read.
func EventMessage(chunk domain.EventChunk) []byte {
	body := make([]byte, 0, len(chunk.Lines)+24)
	body = strconv.AppendInt(body, chunk.Fence, 10)
	body = append(body, ' ')
	body = strconv.AppendInt(body, int64(chunk.First), 10)
	body = append(body, '\n')
	return append(body, chunk.Lines...)
}

// ParseEventMessage reads what EventMessage writes. The chunk's lines share the message's memory.
func ParseEventMessage(body []byte) (domain.EventChunk, error) {
	head, lines, found := bytes.Cut(body, []byte{'\n'})
	fence, first, spaced := bytes.Cut(head, []byte{' '})
	if !found || !spaced || len(head) > 40 {
		return domain.EventChunk{}, errors.New("reading event message: no first line")
	}
	chunk := domain.EventChunk{Lines: lines}
	var fenceErr, firstErr error
	chunk.Fence, fenceErr = strconv.ParseInt(string(fence), 10, 64)
	chunk.First, firstErr = strconv.Atoi(string(first))
	if fenceErr != nil || firstErr != nil || chunk.Fence < 1 || chunk.First < 1 {
		return domain.EventChunk{}, errors.New("reading event message: the first line is not two numbers")
	}
	return chunk, nil
}
