package host

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// Output is the read end of a pipe to which a sandbox writes. It is closed when the sandbox ends,
// even if not everything has been read.
type Output struct {
	mu   sync.Mutex
	file *os.File     // nil when closed
	rest bytes.Reader // data that was still in the pipe when the sandbox ended
}

// NewOutput returns an Output that reads from a pipe and closes it.
func NewOutput(pipe *os.File) *Output { return &Output{file: pipe} }

// Read reads from the pipe. After Drain, it reads the data that was left in the pipe.
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

// Drain reads the data that remains in the pipe, which is at most the pipe's capacity, and closes
// the pipe. All writers must have closed their ends.
func (o *Output) Drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}

	// A sandbox that has ended must keep no file open, so unread data moves to memory.
	rest, _ := io.ReadAll(o.file) // reading a pipe does not fail
	o.rest.Reset(rest)
	o.close()
}

// close closes the pipe. The caller must hold o.mu.
func (o *Output) close() {
	_ = o.file.Close() // no data can be lost, because the file was only read
	o.file = nil
}

// Head keeps the first headSize bytes written to it. It discards the other bytes, so writers never
// block.
type Head struct {
	mu   sync.Mutex
	kept []byte
}

// headSize is the number of bytes that a Head keeps.
const headSize = 16 << 10

// Write accepts all bytes. It keeps them until headSize is reached.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), headSize-len(h.kept))]...)
	return len(p), nil
}

// String returns the kept data as valid UTF-8.
func (h *Head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.ToValidUTF8(h.kept, []byte("\uFFFD")))
}
