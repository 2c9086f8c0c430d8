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
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
)

// What of a call is shown, in bytes of JSON: together less than an output may have, whatever was printed.
const (
	maxStdout  = 24 << 10
	maxStderr  = 8 << 10
	maxValue   = 8 << 10
	maxError   = 6 << 10
	maxNote    = 4 << 10
	maxLeftOut = 2 << 10 // of all names of files that are not kept
	maxMessage = 500     // characters
	maxOutput  = 64 << 10
	forNames   = 512 // of an output's own fields
	maxNames   = 100 // files that an interpreter names as left out, at most
)

// output is what model and caller are shown of a call.
type output struct {
	Error   string   `json:"error,omitempty"`
	Stdout  string   `json:"stdout"`
	Stderr  string   `json:"stderr"`
	Value   string   `json:"value,omitempty"`
	Files   []file   `json:"files"`
	LeftOut []string `json:"leftOut,omitempty"`
	Limit   string   `json:"limit,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// file is a file that a call has left.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
}

// shaping makes the answer to a call.
type shaping struct {
	limits   sandbox.Limits
	code     string
	wall     time.Duration   // that this call had
	found    []python.File   // by the program
	borrowed map[string]bool // of these, by name, those that are none of the session's files
	outcome  python.Outcome
	notes    []string
	kept     []domain.File
	leftOut  []string
}

// keep keeps the files that were made, and what was printed where it is too long to be shown.
func (s *shaping) keep(ctx context.Context, req tool.Request, keepsFiles bool) error {
	made := s.made()
	var removed []string
	if keepsFiles {
		removed = s.removed(made)
	}
	// An earlier try at the call, under an earlier fence, may have left what this one must take away.
	if len(made) == 0 && len(removed) == 0 && req.Fence <= 1 {
		return nil
	}
	var err error
	s.kept, err = req.Files.Keep(ctx, made, removed)
	if errors.Is(err, tool.ErrFilesFull) {
		for _, f := range made {
			s.leftOut = append(s.leftOut, f.Name)
		}
		s.notes = append(s.notes, "No file was kept: "+tool.ErrFilesFull.Error()+".")
		return nil
	}
	return err
}

// made gives the files to keep, which are those that there is room to list, and notes what is none of them.
func (s *shaping) made() []tool.NewFile {
	s.leftOut = slices.Clone(s.outcome.LeftOut)
	var own []tool.NewFile
	for _, f := range s.outcome.Files {
		if !keepable(f.Name) || named(own, f.Name) {
			s.leftOut = append(s.leftOut, f.Name)
			continue
		}
		own = append(own, tool.NewFile{Name: f.Name, MIMEType: mimeType(f.Name, f.Content), Content: f.Content})
	}
	printed := s.whole(nil, own, "stdout", s.outcome.Stdout, maxStdout)
	printed = s.whole(printed, own, "stderr", s.outcome.Stderr, maxStderr)
	made := s.listable(own, printed)
	if len(s.leftOut) > 0 {
		s.notes = append(s.notes, "Omitted files are too many or too large, are not regular files, or have invalid names.")
	}
	return append(made, printed...)
}

// listable gives the files that there is room to list beside all else; the others are left out, for nobody would find them.
func (s *shaping) listable(own, printed []tool.NewFile) (made []tool.NewFile) {
	o := s.outcome
	failure, _ := s.failure()
	room := maxOutput - forNames - maxNote - maxLeftOut - min(weight(failure), maxError)
	room -= min(weight(o.Stdout), maxStdout) + min(weight(o.Stderr), maxStderr) + min(weight(o.Value), maxValue)
	for _, f := range printed {
		room -= listing(f)
	}
	for _, f := range own {
		if listing(f) > room {
			s.leftOut = append(s.leftOut, f.Name)
			continue
		}
		room -= listing(f)
		made = append(made, f)
	}
	return made
}

// listing is how many bytes of an output a file takes at most.
func listing(f tool.NewFile) int {
	const shape = `{"id":"file_00000000000000000000000000","name":"","mimeType":"","bytes":1000000000000},`
	return len(shape) + weight(f.Name) + weight(f.MIMEType)
}

// removed gives the files that the program has found and taken away.
func (s *shaping) removed(made []tool.NewFile) (names []string) {
	for _, f := range s.found {
		if slices.Contains(s.outcome.Removed, f.Name) && !named(made, f.Name) && !s.borrowed[f.Name] {
			names = append(names, f.Name)
		}
	}
	return names
}

// named reports whether a file has a name.
func named(files []tool.NewFile, name string) bool {
	return slices.ContainsFunc(files, func(f tool.NewFile) bool { return f.Name == name })
}

// whole has a text that is shown in part kept as a file, under a name that none has in the folder.
func (s *shaping) whole(printed, own []tool.NewFile, name, text string, maximum int) []tool.NewFile {
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

// result writes the answer.
func (s *shaping) result() (tool.Result, error) {
	o := s.outcome
	out := output{Limit: string(o.Limit)}
	var cut bool
	out.Stdout, _ = shorten(o.Stdout, maxStdout)
	out.Stderr, _ = shorten(o.Stderr, maxStderr)
	if out.Value, cut = shorten(o.Value, maxValue); cut {
		s.notes = append(s.notes, "The value is truncated; print it, or write it to a file, to see all of it.")
	}
	if o.Limit == sandbox.LimitOutput || s.limits.Output > 0 && o.Written > s.limits.Output {
		out.Limit = string(cmp.Or(o.Limit, sandbox.LimitOutput)) // the one that has ended the program, if one has
		kept := size(s.limits.Output)
		s.notes = append(s.notes, fmt.Sprintf("Only the first %s of the output are kept; it had %d bytes.", kept, o.Written))
	}
	failed := o.Failed()
	failure, message := s.failure()
	if failed {
		if out.Error, cut = shorten(failure, maxError); cut {
			s.notes = append(s.notes, "The error is truncated.")
		}
		s.notes = append(s.hints(), s.notes...)
	}
	s.list(&out)
	out.Note, _ = shorten(strings.Join(s.notes, " "), maxNote)
	raw, err := encode(out)
	if err != nil || !failed {
		return tool.Result{Output: raw}, err
	}
	return tool.Result{}, &tool.Error{Message: inShort(message), Output: raw}
}

// inShort is a message of which the end is seen to be missing, if it is.
func inShort(message string) string {
	if tool.CutRunes(message, maxMessage) == message {
		return message
	}
	return tool.CutRunes(message, maxMessage-1) + "…"
}

// failure says why a program failed, in full and in a line.
func (s *shaping) failure() (full, line string) {
	o := s.outcome
	traceback := strings.TrimRight(o.Traceback, "\n")
	last := traceback[strings.LastIndexByte(traceback, '\n')+1:]
	switch {
	case o.Limit != "" && o.Limit != sandbox.LimitOutput:
		line = sentence(o.Limit, s.limits, s.wall)
		if traceback != "" {
			return line + "\n\n" + traceback, line
		}
		return line, line
	case traceback != "":
		return traceback, last
	case o.ExitCode < 0:
		line = fmt.Sprintf("The program was ended by signal %d (%s).", -o.ExitCode, syscall.Signal(-o.ExitCode))
		return line, line
	default:
		line = fmt.Sprintf("The program ended with exit code %d.", o.ExitCode)
		return line, line
	}
}

// list names the files that were kept, and of those that were not as many as there is room for.
func (s *shaping) list(out *output) {
	out.Files = []file{}
	for _, f := range s.kept {
		out.Files = append(out.Files, file{ID: f.ID, Name: f.Name, MIMEType: f.MIMEType, Bytes: f.Bytes})
	}
	room := maxLeftOut
	for _, name := range s.leftOut {
		name = tool.CutRunes(strings.ToValidUTF8(name, "\uFFFD"), shownName)
		if room -= weight(name); room < 0 || len(out.LeftOut) == maxNamed {
			s.notes = append(s.notes, s.uncounted()+fmt.Sprintf("%d more files were omitted.", len(s.leftOut)-len(out.LeftOut)))
			return
		}
		out.LeftOut = append(out.LeftOut, name)
	}
}

// uncounted says that there may have been more files than those that were named here.
func (s *shaping) uncounted() string {
	if len(s.outcome.LeftOut) >= maxNames {
		return "At least "
	}
	return ""
}

// encode writes JSON without the escapes that only HTML needs.
func encode(out output) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("encoding output: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
