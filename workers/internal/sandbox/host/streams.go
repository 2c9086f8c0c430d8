package host

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// Output is the reading end of a pipe that a sandbox writes to. It is closed with the sandbox though nobody may have read it all.
type Output struct {
	mu   sync.Mutex
	file *os.File     // nil when it is closed
	rest bytes.Reader // what was left in the pipe when the sandbox ended
}

// NewOutput reads from a pipe, and closes it.
func NewOutput(pipe *os.File) *Output { return &Output{file: pipe} }

// Read reads from the pipe, or what is left of it.
func (o *Output) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return o.rest.Read(p)
	}
	n, err := o.file.Read(p)
	if err != nil {
		o.close()
	}
	return n, err
}

// Settle keeps what is left, which is no more than a pipe holds, and closes the pipe. Nobody may write to it any more.
func (o *Output) Settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	rest, _ := io.ReadAll(o.file) // reading a pipe does not fail
	o.rest.Reset(rest)
	o.close()
}

func (o *Output) close() {
	_ = o.file.Close() // of what is only read
	o.file = nil
}

// Head keeps the beginning of what is written to it, and takes the rest as well, so that who writes never waits.
type Head struct {
	mu   sync.Mutex
	kept []byte
}

const headSize = 16 << 10

// Write takes everything and keeps the beginning.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), headSize-len(h.kept))]...)
	return len(p), nil
}

// String is what was kept, as valid UTF-8.
func (h *Head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.ToValidUTF8(h.kept, []byte("\uFFFD")))
}
