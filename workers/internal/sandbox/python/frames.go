package python

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of frames. parley_runner.py defines their meaning.
const (
	// Frames that the runner sends.
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

	// Frames that are sent to the runner. frameFile and frameData are sent in both directions.
	frameLimits = 'P'
	frameCode   = 'C'
	frameStop   = 'S'
)

// maxFrame is the maximum size of a payload in bytes. The runner sends no larger frames.
const maxFrame = 1 << 20

// frameHead is the size of a frame's head, which consists of the kind and the payload's length.
const frameHead = 5

// frameReader reads frames from an untrusted stream. It allocates at most maxFrame bytes for a
// payload, whatever the stream contains.
type frameReader struct {
	from *bufio.Reader
	room []byte // memory of the current payload
}

// newFrameReader returns a reader of a sandbox's output.
func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{from: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next frame. The payload is valid only until the next call. next fails at the end
// of the stream, and for a frame that is larger than maxFrame.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}

	// A program may write to the runner's output itself, so the length cannot be trusted.
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

// frameWriter writes frames to a stream. After an error, its methods do nothing, so a caller checks
// only the result of flush.
type frameWriter struct {
	to  *bufio.Writer
	err error
}

// newFrameWriter returns a writer to a sandbox's input. The writer buffers frames until flush is
// called or the buffer is full.
func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{to: bufio.NewWriterSize(w, 64<<10)}
}

// put writes one frame. The payload must have at most maxFrame bytes.
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

// flush sends the buffered frames. It returns the first error of the writer.
func (f *frameWriter) flush() error {
	if f.err != nil {
		return f.err
	}
	return f.to.Flush()
}
