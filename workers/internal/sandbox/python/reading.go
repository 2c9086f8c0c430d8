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

	"parley/workers/internal/sandbox"
)

// What of a program's work is kept, beyond its limits.
const (
	maxFiles     = 100
	maxLeftOut   = 100
	maxName      = 1 << 10
	maxValue     = 64 << 10
	maxTraceback = 128 << 10
)

var errFrame = errors.New("unexpected message of the sandbox")

// reading is what has been read of a program's work. The frames may come from the program itself, which is why each
// bound is held here once more.
type reading struct {
	limits sandbox.Limits
	given  map[string][]byte // the program's files

	stdout, stderr []byte
	seen, written  int64
	ready, begun   bool
	ended          bool // the program; its files follow
	over           bool // all has been said
	exitCode       int
	limit          sandbox.Limit
	value          string
	traceback      string
	cpu            time.Duration
	files          []File
	fileBytes      int64
	skipping       bool // the file that comes is not kept
	removed        []string
	leftOut        []string
}

// take takes one frame that came after the program began.
func (r *reading) take(kind byte, payload []byte) error {
	switch {
	case r.over:
		return errFrame
	case !r.ended:
		return r.takeRunning(kind, payload)
	default:
		return r.takeFile(kind, payload)
	}
}

func (r *reading) takeRunning(kind byte, payload []byte) error {
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

// print keeps what there is room for.
func (r *reading) print(kept, more []byte) []byte {
	room := max(r.limits.Output-r.seen, 0)
	r.seen += int64(len(more))
	return append(kept, more[:min(int64(len(more)), room)]...)
}

func (r *reading) takeEnd(payload []byte) error {
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

func knownLimit(s string) sandbox.Limit {
	switch l := sandbox.Limit(s); l {
	case sandbox.LimitCPU, sandbox.LimitWall, sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitFiles:
		return l
	default:
		return ""
	}
}

func (r *reading) takeFile(kind byte, payload []byte) error {
	switch kind {
	case frameFile:
		return r.begin(payload)
	case frameData:
		return r.more(payload)
	case frameLeftOut:
		r.leaveOut(payload)
	case frameGone:
		name := string(payload)
		if _, was := r.given[name]; was && !slices.Contains(r.removed, name) {
			r.removed = append(r.removed, name)
		}
	case frameEnd:
		r.over = true
	default:
		return errFrame
	}
	return nil
}

func (r *reading) begin(name []byte) error {
	same := func(f File) bool { return f.Name == string(name) }
	r.skipping = len(r.files) >= maxFiles || !goodName(string(name)) || slices.ContainsFunc(r.files, same)
	if r.skipping {
		r.leaveOut(name)
		return nil
	}
	r.files = append(r.files, File{Name: string(name), Content: []byte{}})
	return nil
}

func (r *reading) more(part []byte) error {
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

func (r *reading) leaveOut(name []byte) {
	if len(r.leftOut) < maxLeftOut {
		r.leftOut = append(r.leftOut, text(name[:min(len(name), maxName)]))
	}
}

// outcome is what can be said now. A program whose end was not told has been killed.
func (r *reading) outcome() Outcome {
	o := Outcome{
		Written: max(r.written, r.seen), Value: r.value, Traceback: r.traceback, ExitCode: r.exitCode, Limit: r.limit,
		Removed: r.removed, LeftOut: r.leftOut, CPU: r.cpu,
	}
	if !r.ended {
		o.ExitCode = -9
	}
	o.Stdout, o.Stderr = r.texts()
	if r.over {
		o.Files = slices.DeleteFunc(r.files, func(f File) bool {
			was, given := r.given[f.Name]
			return given && bytes.Equal(was, f.Content)
		})
		slices.SortFunc(o.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	}
	if o.Limit == "" && o.Written > r.limits.Output {
		o.Limit = sandbox.LimitOutput
	}
	return o
}

// texts makes text of what was printed. A byte that is none becomes three, so that there may be too many again.
func (r *reading) texts() (stdout, stderr string) {
	whole := max(r.written, r.seen) <= r.limits.Output
	stderr = start(text(trimTail(r.stderr, whole)), r.limits.Output)
	stdout = start(text(trimTail(r.stdout, whole)), r.limits.Output-int64(len(stderr)))
	return stdout, stderr
}

// trimTail takes the beginning of a character off the end, where it is the cap that has cut it.
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

// start is the beginning of s, at most so many bytes.
func start(s string, maximum int64) string {
	if int64(len(s)) <= maximum {
		return s
	}
	for maximum > 0 && !utf8.RuneStart(s[maximum]) {
		maximum--
	}
	return s[:maximum]
}

func text(b []byte) string {
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

// goodName reports whether a name may be that of a file, here and wherever it goes from here.
func goodName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxName && !strings.ContainsFunc(name, unicode.IsControl)
}

func newReading(l sandbox.Limits, files []File) *reading {
	given := make(map[string][]byte, len(files))
	for _, f := range files {
		given[f.Name] = f.Content
	}
	return &reading{limits: l, given: given}
}

// read reads to the end of what is said. It calls begin when the program begins, and then end when that has ended or
// nothing more comes.
func (r *reading) read(frames *frameReader, begin, end func()) error {
	defer func() {
		if r.begun && !r.ended {
			end()
		}
	}()
	for !r.over {
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

func (r *reading) step(kind byte, payload []byte, begin, end func()) error {
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
