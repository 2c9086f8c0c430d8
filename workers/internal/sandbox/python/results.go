package python

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/shared/truncate"
	"parley/workers/internal/sandbox"
)

// Limits on the results of a program, in addition to the program's own limits: the number of files,
// and the sizes of names and texts in bytes.
const (
	maxFiles     = 100
	maxLeftOut   = 100
	maxName      = 1 << 10
	maxValue     = 64 << 10
	maxTraceback = 128 << 10
)

// errFrame means that a frame is not allowed in the current state. Only a program that has taken
// over the runner sends such frames.
var errFrame = errors.New("unexpected message from the sandbox")

// resultReader collects a program's results from frames. A program could send frames itself, so the
// reader enforces all limits again.
//
// The usual order of frames is ready, begun, output, ended, files, end. A frame that is not allowed
// in the current state is an error. The results received before it are kept.
type resultReader struct {
	limits  sandbox.Limits
	initial map[string][]byte // the program's initial files

	// stdout and stderr contain the output that is kept, together at most limits.Output bytes.
	stdout, stderr []byte
	// seen is the number of bytes of output received. written is the number of bytes that the
	// program has printed.
	seen, written int64
	// ready and begun are true after the frames of these names.
	ready, begun bool
	ended        bool // the program has ended, and its files follow
	complete     bool // all frames have been received
	exitCode     int
	limit        sandbox.Limit
	value        string
	traceback    string
	cpu          time.Duration
	// files contains the files that have been received. fileBytes is their total size.
	files     []File
	fileBytes int64
	skipping  bool // the rest of the current file is being ignored
	removed   []string
	leftOut   []string
}

// take processes a frame that arrives after the program has begun. It returns errFrame for a frame
// that is not allowed in the current state.
func (r *resultReader) take(kind byte, payload []byte) error {
	switch {
	case r.complete:
		return errFrame
	case !r.ended:
		return r.takeRunning(kind, payload)
	default:
		return r.takeFile(kind, payload)
	}
}

// takeRunning processes a frame that arrives while the program runs: output, the number of printed
// bytes, or the program's end.
func (r *resultReader) takeRunning(kind byte, payload []byte) error {
	switch kind {
	case frameOutput:
		r.stdout = r.print(r.stdout, payload)
	case frameErrors:
		r.stderr = r.print(r.stderr, payload)
	case frameWritten:
		var written int64
		if _, err := fmt.Sscanf(string(payload), "%d", &written); err != nil {
			return errFrame
		}
		r.written = max(r.written, written)
	case frameEnded:
		return r.takeEnd(payload)
	default:
		return errFrame
	}
	return nil
}

// print adds printed bytes to the output that is kept, as far as the limit on output allows.
func (r *resultReader) print(kept, more []byte) []byte {
	// The limit applies to standard output and standard error together.
	room := max(r.limits.Output-r.seen, 0)
	r.seen += int64(len(more))
	return append(kept, more[:min(int64(len(more)), room)]...)
}

// takeEnd parses the frame that reports the program's end: exit code, value and traceback. It
// returns errFrame if the frame is malformed. The processor time in the frame is only a lower
// bound; see exchange.end.
func (r *resultReader) takeEnd(payload []byte) error {
	// The first line of the frame contains the numbers and the name of an exceeded limit. The value
	// and the traceback follow without separators.
	head, body, found := bytes.Cut(payload, []byte("\n"))
	var exitCode, written, cpu, value, traceback int64
	limit := ""
	n, err := fmt.Sscanf(string(head[:min(len(head), 200)]), "%d %d %d %d %d %s", &exitCode, &written, &cpu, &value, &traceback, &limit)
	if !found || n < 5 || err != nil && n != 5 {
		return errFrame
	}
	if value < 0 || traceback < 0 || value > maxValue || traceback > maxTraceback || value+traceback != int64(len(body)) {
		return errFrame
	}
	r.ended = true
	r.exitCode = int(exitCode)
	r.written = max(r.written, written)
	r.cpu = time.Duration(min(max(cpu, 0), int64(time.Hour/time.Microsecond))) * time.Microsecond
	r.limit = knownLimit(limit)
	r.value = text(body[:value])
	r.traceback = text(body[value:])
	return nil
}

// knownLimit returns the limit named s, or "" if s is not the name of a limit. The frames of the
// runner are not trusted, so s may be any text.
func knownLimit(s string) sandbox.Limit {
	switch l := sandbox.Limit(s); l {
	case sandbox.LimitCPU, sandbox.LimitWall, sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitFiles:
		return l
	default:
		return ""
	}
}

// takeFile processes a frame that arrives after the program's end. Such frames contain the files.
func (r *resultReader) takeFile(kind byte, payload []byte) error {
	switch kind {
	case frameFile:
		return r.begin(payload)
	case frameData:
		return r.more(payload)
	case frameLeftOut:
		r.leaveOut(payload)
	case frameGone:
		name := string(payload)
		if _, was := r.initial[name]; was && !slices.Contains(r.removed, name) {
			r.removed = append(r.removed, name)
		}
	case frameEnd:
		r.complete = true
	default:
		return errFrame
	}
	return nil
}

// begin starts a file. It skips a file if the name is invalid or repeated, or if there are too many
// files. The name of a skipped file is recorded in leftOut.
func (r *resultReader) begin(name []byte) error {
	same := func(f File) bool { return f.Name == string(name) }
	r.skipping = len(r.files) >= maxFiles || !validName(string(name)) || slices.ContainsFunc(r.files, same)
	if r.skipping {
		r.leaveOut(name)
		return nil
	}
	r.files = append(r.files, File{Name: string(name), Content: []byte{}})
	return nil
}

// more appends data to the current file. If the files exceed the limit, more drops the current file
// and skips the rest of its data.
func (r *resultReader) more(part []byte) error {
	if r.skipping {
		return nil
	}
	if len(r.files) == 0 {
		return errFrame
	}
	f := &r.files[len(r.files)-1]
	if r.fileBytes+int64(len(part)) > r.limits.Files {
		r.fileBytes -= int64(len(f.Content))
		r.leaveOut([]byte(f.Name))
		r.files = r.files[:len(r.files)-1]
		r.skipping = true
		return nil
	}
	r.fileBytes += int64(len(part))
	f.Content = append(f.Content, part...)
	return nil
}

// leaveOut records the name of a file that is not returned. It truncates the name and keeps at most
// maxLeftOut names.
func (r *resultReader) leaveOut(name []byte) {
	if len(r.leftOut) < maxLeftOut {
		r.leftOut = append(r.leftOut, text(name[:min(len(name), maxName)]))
	}
}

// outcome returns the results received so far. If the frame that reports the program's end is
// missing, the program was killed. Files are returned only if all of them have arrived. Took and
// Memory are not set.
func (r *resultReader) outcome() Outcome {
	o := Outcome{
		Written: max(r.written, r.seen), Value: r.value, Traceback: r.traceback, ExitCode: r.exitCode, Limit: r.limit,
		Removed: r.removed, LeftOut: r.leftOut, CPU: r.cpu,
	}
	if !r.ended {
		o.ExitCode = -9
	}
	o.Stdout, o.Stderr = r.texts()
	if r.complete {
		o.Files = slices.DeleteFunc(r.files, func(f File) bool {
			was, initial := r.initial[f.Name]
			return initial && bytes.Equal(was, f.Content)
		})
		slices.SortFunc(o.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	}
	if o.Limit == "" && o.Written > r.limits.Output {
		o.Limit = sandbox.LimitOutput
	}
	return o
}

// texts converts the output to text. It truncates the text again, because each invalid byte becomes
// three bytes. If standard output and standard error do not fit together, standard error takes
// precedence.
func (r *resultReader) texts() (stdout, stderr string) {
	whole := max(r.written, r.seen) <= r.limits.Output
	stderr = truncate.Bytes(text(trimTail(r.stderr, whole)), int(r.limits.Output))
	stdout = truncate.Bytes(text(trimTail(r.stdout, whole)), int(r.limits.Output)-len(stderr))
	return stdout, stderr
}

// trimTail removes an incomplete character from the end of b, unless b is the complete output.
func trimTail(b []byte, whole bool) []byte {
	if whole {
		return b
	}
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if tail := b[len(b)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-back]
			}
			break
		}
	}
	return b
}

// text returns the bytes as valid UTF-8.
func text(b []byte) string {
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

// validName reports whether a name is a valid file name: a relative path with slashes, without
// control characters and without "..". At most maxName bytes are allowed.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxName && !strings.ContainsFunc(name, unicode.IsControl)
}

// newResultReader returns a reader for a program with the given initial files. Initial files that
// the program has not changed are not returned.
func newResultReader(l sandbox.Limits, files []File) *resultReader {
	initial := make(map[string][]byte, len(files))
	for _, f := range files {
		initial[f.Name] = f.Content
	}
	return &resultReader{limits: l, initial: initial}
}

// read reads frames until the stream ends or the last frame has arrived. It calls begin when the
// program begins, and end when the program or the stream has ended. It returns nil only if all
// frames have arrived.
func (r *resultReader) read(frames *frameReader, begin, end func()) error {
	defer func() {
		if r.begun && !r.ended {
			end()
		}
	}()
	for !r.complete {
		kind, payload, err := frames.next()
		if err != nil {
			return err
		}
		if err := r.step(kind, payload, begin, end); err != nil {
			return err
		}
	}
	return nil
}

// step processes a frame. The meaning of the frame depends on whether the program has begun or
// ended.
func (r *resultReader) step(kind byte, payload []byte, begin, end func()) error {
	switch {
	case kind == frameReady && !r.ready && !r.begun:
		r.ready = true
	case kind == frameBegun && !r.begun && !r.ended:
		r.begun = true
		begin()
	case !r.begun && !r.ended && kind != frameEnded:
		return errFrame
	default:
		running := !r.ended
		err := r.take(kind, payload)
		if r.begun && r.ended && running {
			end()
		}
		return err
	}
	return nil
}
