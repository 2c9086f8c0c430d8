package bubblewrap

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// output is the reading end of a pipe, which is closed with the sandbox though nobody may have read it all.
type output struct {
	mu   sync.Mutex
	file *os.File
	rest bytes.Reader // what was left in the pipe when the sandbox ended
}

// Read reads from the pipe, or what is left of it.
func (o *output) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return o.rest.Read(p)
	}
	n, err := o.file.Read(p)
	if err != nil {
		_ = o.file.Close() // of a pipe
		o.file = nil
	}
	return n, err
}

// settle keeps what is left, which is no more than a pipe holds, and closes the pipe. Nobody writes to it any more.
func (o *output) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	rest, _ := io.ReadAll(o.file) // reading a pipe does not fail
	o.rest.Reset(rest)
	_ = o.file.Close() // of a pipe
	o.file = nil
}

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	kept []byte
}

const headSize = 16 << 10

// Write takes everything and keeps the beginning.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), headSize-len(h.kept))]...)
	return len(p), nil
}

// String is what was kept, as valid UTF-8.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.ToValidUTF8(h.kept, []byte("\uFFFD")))
}
