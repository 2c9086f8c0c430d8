package python

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of frames; parley_runner.py defines their meaning.
const (
	frameReady   = 'Y'
	frameBegun   = 'B'
	frameOutput  = 'O'
	frameErrors  = 'E'
	frameWritten = 'W'
	frameEnded   = 'X'
	frameFile    = 'F'
	frameData    = 'D'
	frameLeftOut = 'L'
	frameGone    = 'G'
	frameEnd     = 'Z'

	frameLimits = 'P'
	frameCode   = 'C'
	frameStop   = 'S'
)

// maxFrame is larger than every frame that the runner sends.
const maxFrame = 1 << 20

const frameHead = 5

// frameReader reads frames from an untrusted stream.
type frameReader struct {
	from *bufio.Reader
	room []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{from: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next frame. The payload is valid only until the next call.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head[1:]))
	if size > maxFrame {
		return 0, nil, fmt.Errorf("reading a frame: %d bytes exceed the limit", size)
	}
	if cap(f.room) < size {
		f.room = make([]byte, size)
	}
	payload = f.room[:size]
	if _, err := io.ReadFull(f.from, payload); err != nil {
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	return head[0], payload, nil
}

// frameWriter writes frames to a stream. After an error it does nothing.
type frameWriter struct {
	to  *bufio.Writer
	err error
}

func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{to: bufio.NewWriterSize(w, 64<<10)}
}

func (f *frameWriter) put(kind byte, payload []byte) {
	if f.err != nil {
		return
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	if _, f.err = f.to.Write(head); f.err == nil {
		_, f.err = f.to.Write(payload)
	}
}

// putParts writes a payload of any size as several frames of one kind.
func (f *frameWriter) putParts(kind byte, payload []byte) {
	for len(payload) > 0 && f.err == nil {
		part := payload[:min(len(payload), maxFrame)]
		f.put(kind, part)
		payload = payload[len(part):]
	}
}

func (f *frameWriter) flush() error {
	if f.err != nil {
		return f.err
	}
	return f.to.Flush()
}
