package codeexec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"parley/shared/domain"
	"parley/shared/truncate"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
)

// Limits of the parts of an output, in bytes of JSON. Their sum is below the limit on a tool's
// output.
const (
	maxStdout    = 24 << 10
	maxStderr    = 8 << 10
	maxValue     = 8 << 10
	maxError     = 6 << 10
	maxNote      = 4 << 10
	maxLeftOut   = 2 << 10 // total bytes of the names of files that were not stored
	maxMessage   = 500     // characters
	maxOutput    = 64 << 10
	namesReserve = 512 // reserved for the names of the output's fields
	maxNames     = 100 // maximum number of names of unreturned files that an interpreter reports
)

// output is the output of a call, in the form that models and callers see.
type output struct {
	// Error is the message that the caller sees if the program failed.
	Error  string `json:"error,omitempty"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Value  string `json:"value,omitempty"`
	Files  []file `json:"files"`
	// LeftOut lists names of files that the program created but that were not stored.
	LeftOut []string `json:"leftOut,omitempty"`
	// Limit is the sandbox limit that ended the program.
	Limit string `json:"limit,omitempty"`
	// Note contains explanations for the model, for example about truncated parts.
	Note string `json:"note,omitempty"`
}

// file is a file that a call has stored.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
}

// outputBuilder builds the reply to one call. The method keep stores the files, and then the method
// result returns the reply.
type outputBuilder struct {
	limits        sandbox.Limits
	code          string
	wall          time.Duration   // the program's limit on elapsed time
	found         []python.File   // initial files of the program
	documentNames map[string]bool // names of those initial files that contain documents
	outcome       python.Outcome
	// notes contains sentences for the model. kept contains the stored files, and leftOut contains
	// the names of files that are not stored.
	notes   []string
	kept    []domain.File
	leftOut []string
}

// keep stores the files that the program has created. It also stores the complete text of outputs
// that are too long to be shown in full. If the session's quota of files is exceeded, keep stores
// nothing, adds a note and returns nil.
func (s *outputBuilder) keep(ctx context.Context, req tool.Request, keepsFiles bool) error {
	made := s.made()
	var removed []string
	// Deleted files are removed from the session only if the agent keeps files. Otherwise, the
	// folder contains only some of the session's files.
	if keepsFiles {
		removed = s.removed(made)
	}
	// An earlier attempt at the call may have stored files, which this attempt must remove. The
	// first attempt has nothing to remove.
	if len(made) == 0 && len(removed) == 0 && req.Fence <= 1 {
		return nil
	}

	var err error
	s.kept, err = req.Files.Keep(ctx, made, removed)
	// If the quota is exceeded, the call still succeeds, because the program's output is useful
	// without the files.
	if errors.Is(err, tool.ErrFilesFull) {
		for _, f := range made {
			s.leftOut = append(s.leftOut, f.Name)
		}
		s.notes = append(s.notes, "No file was kept: "+tool.ErrFilesFull.Error()+".")
		return nil
	}
	return err
}

// made returns the files to be stored. For files that cannot be stored, it adds the names to the
// list leftOut, and one note.
func (s *outputBuilder) made() []tool.NewFile {
	s.leftOut = slices.Clone(s.outcome.LeftOut)

	var own []tool.NewFile
	for _, f := range s.outcome.Files {
		// If several files have the same name, only the first is stored.
		if !keepable(f.Name) || named(own, f.Name) {
			s.leftOut = append(s.leftOut, f.Name)
			continue
		}
		own = append(own, tool.NewFile{Name: f.Name, MIMEType: mimeType(f.Name, f.Content), Content: f.Content})
	}

	// Files with complete outputs are named last, so that they do not take a name that the program
	// has used.
	printed := s.keepComplete(nil, own, "stdout", s.outcome.Stdout, maxStdout)
	printed = s.keepComplete(printed, own, "stderr", s.outcome.Stderr, maxStderr)
	made := s.listable(own, printed)
	if len(s.leftOut) > 0 {
		s.notes = append(s.notes, "Files are omitted if they are too many or too large, are not regular files, or have invalid names.")
	}
	return append(made, printed...)
}

// listable returns the files for which there is enough space in the output's list. The other files
// are not stored, because without an entry the model could not refer to them.
func (s *outputBuilder) listable(own, printed []tool.NewFile) (made []tool.NewFile) {
	o := s.outcome
	failure, _ := s.failure()
	room := maxOutput - namesReserve - maxNote - maxLeftOut - min(weight(failure), maxError)
	room -= min(weight(o.Stdout), maxStdout) + min(weight(o.Stderr), maxStderr) + min(weight(o.Value), maxValue)

	// Files with complete outputs always get an entry, because notes refer to them.
	for _, f := range printed {
		room -= entrySize(f)
	}

	for _, f := range own {
		// A file without an entry is not stored, because the model could not refer to it.
		if entrySize(f) > room {
			s.leftOut = append(s.leftOut, f.Name)
			continue
		}
		room -= entrySize(f)
		made = append(made, f)
	}
	return made
}

// entrySize returns the maximum size of a file's entry in the output's list of files.
func entrySize(f tool.NewFile) int {
	const shape = `{"id":"file_00000000000000000000000000","name":"","mimeType":"","bytes":1000000000000},`
	return len(shape) + weight(f.Name) + weight(f.MIMEType)
}

// removed returns the names of the session files that the program has deleted.
func (s *outputBuilder) removed(made []tool.NewFile) (names []string) {
	for _, f := range s.found {
		// Documents are not files of the session, so a deleted document has no effect on the
		// session.
		if slices.Contains(s.outcome.Removed, f.Name) && !named(made, f.Name) && !s.documentNames[f.Name] {
			names = append(names, f.Name)
		}
	}
	return names
}

// named reports whether one of the files has the given name.
func named(files []tool.NewFile, name string) bool {
	return slices.ContainsFunc(files, func(f tool.NewFile) bool { return f.Name == name })
}

// keepComplete adds a file with the complete text of an output, if the output is too long to be
// shown in full. It chooses a name that no other file has.
func (s *outputBuilder) keepComplete(printed, own []tool.NewFile, name, text string, maximum int) []tool.NewFile {
	if weight(text) <= maximum {
		return printed
	}

	free := name + ".txt"
	taken := func() bool {
		return named(own, free) || slices.ContainsFunc(s.found, func(f python.File) bool { return f.Name == free })
	}
	for n := 2; taken(); n++ {
		free = fmt.Sprintf("%s-%d.txt", name, n)
	}

	s.notes = append(s.notes, fmt.Sprintf("%s is truncated; the stored part is in the file %s.", name, free))
	return append(printed, tool.NewFile{Name: free, MIMEType: "text/plain", Content: []byte(text)})
}

// result returns the call's result. If the program failed, result returns an error that contains
// the output. The output has at most maxOutput bytes.
func (s *outputBuilder) result() (tool.Result, error) {
	o := s.outcome
	out := output{Limit: string(o.Limit)}
	var cut bool

	out.Stdout, _ = truncateMiddle(o.Stdout, maxStdout)
	out.Stderr, _ = truncateMiddle(o.Stderr, maxStderr)
	if out.Value, cut = truncateMiddle(o.Value, maxValue); cut {
		s.notes = append(s.notes, "The value is truncated; print it, or write it to a file, to see all of it.")
	}

	if o.Limit == sandbox.LimitOutput || s.limits.Output > 0 && o.Written > s.limits.Output {
		out.Limit = string(cmp.Or(o.Limit, sandbox.LimitOutput)) // the limit that ended the program, or else the exceeded output limit
		kept := size(s.limits.Output)
		s.notes = append(s.notes, fmt.Sprintf("Only the first %s of the output are kept; it had %d bytes.", kept, o.Written))
	}

	failed := o.Failed()
	failure, message := s.failure()
	if failed {
		if out.Error, cut = truncateMiddle(failure, maxError); cut {
			s.notes = append(s.notes, "The error is truncated.")
		}
		// The hints explain the failure, so they come first. If the note is truncated, they remain.
		s.notes = append(s.hints(), s.notes...)
	}

	// The method list may add notes, so the notes are joined after it.
	s.list(&out)
	out.Note, _ = truncateMiddle(strings.Join(s.notes, " "), maxNote)
	raw, err := encode(out)
	if err != nil || !failed {
		return tool.Result{Output: raw}, err
	}
	return tool.Result{}, &tool.Error{Message: truncate.Ellipsis(message, maxMessage), Output: raw}
}

// failure returns the reason why a program failed, as full text and as a single line. It is
// meaningful only if the program has failed.
func (s *outputBuilder) failure() (full, line string) {
	o := s.outcome
	traceback := strings.TrimRight(o.Traceback, "\n")
	last := traceback[strings.LastIndexByte(traceback, '\n')+1:]

	// A limit explains the failure better than the traceback that results from it.
	switch {
	case o.Limit != "" && o.Limit != sandbox.LimitOutput:
		line = limitMessage(o.Limit, s.limits, s.wall)
		if traceback != "" {
			return line + "\n\n" + traceback, line
		}
		return line, line
	// The last line of a Python traceback states the exception.
	case traceback != "":
		return traceback, last
	// A negative exit code is the number of a signal, as in Python's subprocess module.
	case o.ExitCode < 0:
		line = fmt.Sprintf("The program was terminated by signal %d (%s).", -o.ExitCode, syscall.Signal(-o.ExitCode))
		return line, line
	default:
		line = fmt.Sprintf("The program exited with code %d.", o.ExitCode)
		return line, line
	}
}

// list adds the stored files to the output. It also adds the names of files that were not stored,
// as far as there is space for them.
func (s *outputBuilder) list(out *output) {
	out.Files = []file{}
	for _, f := range s.kept {
		out.Files = append(out.Files, file{ID: f.ID, Name: f.Name, MIMEType: f.MIMEType, Bytes: f.Bytes})
	}
	room := maxLeftOut
	for _, name := range s.leftOut {
		name = truncate.Runes(strings.ToValidUTF8(name, "\uFFFD"), shownName)
		// The program has chosen the names, so their number and length are unlimited.
		if room -= weight(name); room < 0 || len(out.LeftOut) == maxNamed {
			s.notes = append(s.notes, s.uncounted()+fmt.Sprintf("%d more files were omitted.", len(s.leftOut)-len(out.LeftOut)))
			return
		}
		out.LeftOut = append(out.LeftOut, name)
	}
}

// uncounted returns "At least " if the interpreter may have reported only some of the names, and
// otherwise "".
func (s *outputBuilder) uncounted() string {
	if len(s.outcome.LeftOut) >= maxNames {
		return "At least "
	}
	return ""
}

// encode encodes JSON without escaping HTML characters.
func encode(out output) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("encoding output: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
