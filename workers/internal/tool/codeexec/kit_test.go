package codeexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/codeexec"
)

// fakeInterpreter returns the outcome that a test has set, and records the programs.
type fakeInterpreter struct {
	outcome python.Outcome
	err     error
	given   []python.Program
}

func (s *fakeInterpreter) Run(_ context.Context, p python.Program) (python.Outcome, error) {
	s.given = append(s.given, p)
	return s.outcome, s.err
}

// fakeFiles contains the files of a session, and stores the files of a call.
type fakeFiles struct {
	session []domain.File
	content map[string]string // content by file id
	noList  error
	noRead  error
	noKeep  error

	nameList int
	kept     int
	made     []tool.NewFile
	removed  []string
}

func (c *fakeFiles) Session(context.Context) ([]domain.File, error) {
	c.nameList++
	return c.session, c.noList
}

func (c *fakeFiles) Read(_ context.Context, files []domain.File) (contents [][]byte, err error) {
	for _, f := range files {
		contents = append(contents, []byte(c.content[f.ID]))
	}
	return contents, c.noRead
}

func (c *fakeFiles) Keep(_ context.Context, made []tool.NewFile, removed []string) ([]domain.File, error) {
	c.kept++
	if c.noKeep != nil {
		return nil, c.noKeep
	}
	c.made, c.removed = made, removed
	var files []domain.File
	for n, f := range made {
		files = append(files, domain.File{ID: fmt.Sprintf("file_%026d", n), Name: f.Name, MIMEType: f.MIMEType, Bytes: int64(len(f.Content))})
	}
	return files, nil
}

// add adds a file to the session. Each file is newer than all files added before.
func (c *fakeFiles) add(name, content string) *fakeFiles {
	id := fmt.Sprintf("file_%d", len(c.session))
	if c.content == nil {
		c.content = map[string]string{}
	}
	c.content[id] = content
	created := domain.At(time.Date(2026, 1, 1, 0, 0, len(c.session), 0, time.UTC))
	c.session = append(c.session, domain.File{ID: id, Name: name, Bytes: int64(len(content)), CreatedAt: created})
	slices.SortFunc(c.session, func(a, b domain.File) int { return strings.Compare(a.Name, b.Name) })
	return c
}

func limits() sandbox.Limits {
	return sandbox.Limits{
		CPU: 10 * time.Second, Wall: 30 * time.Second, Memory: 512 << 20, Processes: 64, Files: 64 << 20, FileCount: 1000, Output: 1 << 20,
	}
}

// shown is a call's output.
type shown struct {
	Error   string      `json:"error"`
	Stdout  string      `json:"stdout"`
	Stderr  string      `json:"stderr"`
	Value   string      `json:"value"`
	Files   []shownFile `json:"files"`
	LeftOut []string    `json:"leftOut"`
	Limit   string      `json:"limit"`
	Note    string      `json:"note"`
}

type shownFile struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
}

func (s shown) names() string {
	var names []string
	for _, f := range s.Files {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

// call makes a call and returns its output. If the call fails before a program runs, the function
// returns the message or text of the error.
func call(t *testing.T, s codeexec.Interpreter, files tool.Files, keeps bool, arguments string) (shown, string) {
	t.Helper()
	return callWithin(t, s, files, keeps, arguments, limits())
}

func callWithin(t *testing.T, s codeexec.Interpreter, files tool.Files, keeps bool, arguments string, l sandbox.Limits) (shown, string) {
	t.Helper()
	result, err := codeexec.New(s, codeexec.Config{Limits: l}).Call(t.Context(), request(files, keeps, arguments))
	raw := result.Output
	var public *tool.Error
	message := ""
	switch {
	case errors.As(err, &public):
		raw, message = public.Output, public.Message
		if public.Retryable {
			message = "again: " + message
		}
	case err != nil:
		return shown{}, "error: " + err.Error()
	}
	var got shown
	if raw != nil {
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if len(raw) > 64<<10 || string(tool.Cap(tool.Result{Output: raw}).Output) != string(raw) {
			t.Errorf("the output takes %d bytes", len(raw))
		}
		if (got.Error == "") != (err == nil) || got.Files == nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	return got, message
}

func request(files tool.Files, keeps bool, arguments string) tool.Request {
	return tool.Request{
		OrganizationID: "org_1", RunID: "run_1", TargetID: "ag_1", Fence: 1, Files: files,
		Config: domain.Config{Tools: domain.Tools{CodeExecution: &domain.CodeTool{Enabled: true, KeepFiles: keeps}}},
		Call:   tool.Call{ID: "call_1", Name: "codeExecution", Arguments: json.RawMessage(arguments)},
	}
}
