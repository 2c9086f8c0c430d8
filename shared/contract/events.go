package contract

import (
	"bytes"
	"errors"
	"strconv"

	"parley/shared/domain"
)

// RunSubject returns the subject filter for all messages about a run: its events, its end and its
// cancellation.
func RunSubject(runID string) string { return "runs.*." + runID }

// EventMessage encodes events for publication: a line with the fence and the number of the first
// event, then the chunk's lines. A message without lines notifies watchers to read the events from
// that number on.
func EventMessage(chunk domain.EventChunk) []byte {
	body := make([]byte, 0, len(chunk.Lines)+24)
	body = strconv.AppendInt(body, chunk.Fence, 10)
	body = append(body, ' ')
	body = strconv.AppendInt(body, int64(chunk.First), 10)
	body = append(body, '\n')
	return append(body, chunk.Lines...)
}

// ParseEventMessage is the inverse of EventMessage. The chunk's lines share the message's memory.
func ParseEventMessage(body []byte) (domain.EventChunk, error) {
	head, lines, found := bytes.Cut(body, []byte{'\n'})
	fence, first, spaced := bytes.Cut(head, []byte{' '})

	// 40 bytes are enough for two numbers.
	if !found || !spaced || len(head) > 40 {
		return domain.EventChunk{}, errors.New("reading event message: the first line is missing or too long")
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
