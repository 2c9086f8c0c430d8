package codeexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/codeexec"
)

// fakeDocuments contains the documents that an agent may read. log lists the calls of its methods.
type fakeDocuments struct {
	documents    []domain.Document
	noFind, gone error
	log          []string
}

func (a *fakeDocuments) Give(context.Context, []string) ([]string, error) {
	return nil, errors.New("reading notes by itself")
}

func (a *fakeDocuments) Find(_ context.Context, ids []string) (found []domain.Document, err error) {
	a.log = append(a.log, "find "+strings.Join(ids, " "))
	for _, id := range ids {
		for _, d := range a.documents {
			if d.ID == id {
				found = append(found, d)
			}
		}
	}
	return found, a.noFind
}

func (a *fakeDocuments) Read(_ context.Context, documents []domain.Document) (contents [][]byte, err error) {
	for _, d := range documents {
		a.log = append(a.log, "read "+d.ID)
		contents = append(contents, []byte("of "+d.ID))
	}
	return contents, a.gone
}

func paper(id, name string, bytes int64) domain.Document {
	return domain.Document{ID: id, Name: name, Bytes: bytes, Status: domain.DocumentReady}
}

// addDocuments runs a program with files and documents. It returns the initial files of the
// program, and the call's result.
func addDocuments(t *testing.T, c *fakeFiles, a *fakeDocuments, keeps bool, outcome python.Outcome, files ...string) (found string, got shown, message string) {
	t.Helper()
	s := &fakeInterpreter{outcome: outcome}
	arguments, err := json.Marshal(map[string]any{"code": "1", "files": files})
	if err != nil {
		t.Fatal(err)
	}
	req := request(c, keeps, string(arguments))
	req.Documents = a
	l := limits()
	l.Files, l.FileCount = 1000, 4
	result, err := codeexec.New(s, codeexec.Config{Limits: l}).Call(t.Context(), req)
	if public, ok := errors.AsType[*tool.Error](err); ok {
		return "", got, fmt.Sprintf("%s again: %v", public.Message, public.Retryable)
	}
	if err := errors.Join(err, json.Unmarshal(result.Output, &got)); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range s.given[0].Files {
		list = append(list, f.Name+"="+string(f.Content))
	}
	return strings.Join(list, ", "), got, ""
}

func TestDocumentsInTheFolder(t *testing.T) {
	t.Parallel()
	papers := []domain.Document{
		paper("doc_1", "report.pdf", 100), paper("doc_2", "report.pdf", 100), paper("doc_3", "a.csv", 100), paper("doc_4", "x/../y.pdf", 100),
		paper("doc_5", "..", 100), paper("doc_6", "big.pdf", 1001), paper("doc_7", "Übersicht 2026.pdf", 100), paper("doc_8", strings.Repeat("x", 255), 100),
	}
	for name, c := range map[string]struct {
		keeps bool
		files []string
		want  string // expected content of the working folder, or the error message
		note  string
		log   string
	}{
		"by id":                    {false, []string{"doc_1"}, "report.pdf=of doc_1", "", "find doc_1; read doc_1"},
		"in any script":            {false, []string{"doc_7"}, "Übersicht 2026.pdf=of doc_7", "", "find doc_7; read doc_7"},
		"beside a file":            {false, []string{"doc_1", "a.csv"}, "a.csv=1,2, report.pdf=of doc_1", "", "find doc_1; read doc_1"},
		"twice":                    {false, []string{"doc_1", "doc_1"}, "report.pdf=of doc_1", "", "find doc_1; read doc_1"},
		"two of a name":            {false, []string{"doc_1", "doc_2"}, "report.pdf=of doc_1, doc_2/report.pdf=of doc_2", `The document doc_2 is in the folder as "doc_2/report.pdf".`, "find doc_1 doc_2; read doc_1; read doc_2"},
		"a file's name":            {false, []string{"doc_3", "a.csv"}, "a.csv=1,2, doc_3/a.csv=of doc_3", `The document doc_3 is in the folder as "doc_3/a.csv".`, "find doc_3; read doc_3"},
		"the name of one left out": {false, []string{"doc_3"}, "a.csv=of doc_3", "", "find doc_3; read doc_3"},
		"a name with folders":      {false, []string{"doc_4"}, "doc_4.pdf=of doc_4", `The document doc_4 is in the folder as "doc_4.pdf".`, "find doc_4; read doc_4"},
		"a name that is none":      {false, []string{"doc_5"}, "doc_5.=of doc_5", `The document doc_5 is in the folder as "doc_5.".`, "find doc_5; read doc_5"},
		"a long name of a file":    {false, []string{"doc_8"}, strings.Repeat("x", 255) + "=of doc_8", "", "find doc_8; read doc_8"},
		"with all of the session":  {true, []string{"doc_1"}, "a.csv=1,2, doc_report.txt=mine, report.pdf=of doc_1", "", "find doc_1; read doc_1"},
		"a kept file's name":       {true, []string{"doc_3"}, "a.csv=1,2, doc_report.txt=mine, doc_3/a.csv=of doc_3", `The document doc_3 is in the folder as "doc_3/a.csv".`, "find doc_3; read doc_3"},
		"a file called like one":   {false, []string{"doc_report.txt"}, "doc_report.txt=mine", "", ""},
		"too large":                {false, []string{"doc_6"}, "The files exceed the folder's limit of 1000 bytes and 4 files. again: false", "", "find doc_6"},
		"too many":                 {true, []string{"doc_1", "doc_2", "doc_3", "doc_4", "doc_7"}, "The files exceed the folder's limit of 1000 bytes and 4 files. again: false", "", "find doc_1 doc_2 doc_3 doc_4 doc_7"},
		"room is made for them":    {true, []string{"doc_1", "doc_3", "doc_7"}, "doc_report.txt=mine, report.pdf=of doc_1, doc_3/a.csv=of doc_3, Übersicht 2026.pdf=of doc_7", `would make it too large: "a.csv".`, "find doc_1 doc_3 doc_7; read doc_1; read doc_3; read doc_7"},
		"unknown":                  {false, []string{"doc_1", "doc_none"}, `There is no document "doc_none" that this agent may read. again: false`, "", "find doc_1 doc_none"},
		"an unknown file":          {false, []string{"doc_1", "none.csv"}, `This session has no file "none.csv". The session's files are "a.csv", "doc_report.txt". again: false`, "", ""},
	} {
		cab, a := (&fakeFiles{}).add("a.csv", "1,2").add("doc_report.txt", "mine"), &fakeDocuments{documents: papers}
		got, out, message := addDocuments(t, cab, a, c.keeps, python.Outcome{}, c.files...)
		if got+message != c.want || !strings.Contains(out.Note, c.note) || c.note == "" && out.Note != "" {
			t.Errorf("%s: %s%s; %s", name, got, message, out.Note)
		}
		if log := strings.Join(a.log, "; "); log != c.log {
			t.Errorf("%s: %s", name, log)
		}
	}
}

func TestDocumentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	boom := errors.New("the database is away")
	for name, c := range map[string]struct {
		fakeDocuments fakeDocuments
		want          string
	}{
		"not found": {fakeDocuments{noFind: boom}, "The files of the session are temporarily unavailable. again: true"},
		"not read":  {fakeDocuments{gone: boom}, "The files of the session are temporarily unavailable. again: true"},
		"gone":      {fakeDocuments{gone: fmt.Errorf("reading: %w", tool.ErrGone)}, "A document was deleted while it was read. Try again without it. again: false"},
	} {
		c.fakeDocuments.documents = []domain.Document{paper("doc_1", "a.pdf", 1)}
		if _, _, message := addDocuments(t, &fakeFiles{}, &c.fakeDocuments, false, python.Outcome{}, "doc_1"); message != c.want {
			t.Errorf("%s: %s", name, message)
		}
	}
	req := request(&fakeFiles{}, false, `{"code":"1","files":["doc_1"]}`)
	req.Documents = &fakeDocuments{gone: tool.ErrStale, documents: []domain.Document{paper("doc_1", "a.pdf", 1)}}
	if _, err := codeexec.New(&fakeInterpreter{}, codeexec.Config{Limits: limits()}).Call(t.Context(), req); !errors.Is(err, tool.ErrStale) {
		t.Errorf("taken over: %v", err)
	}
}

// TestDocumentsAreNotSessionFiles: if a program deletes a document, no file of the session is
// removed. If it changes a document, the changed file is stored as a new file of the session.
func TestDocumentsAreNotSessionFiles(t *testing.T) {
	t.Parallel()
	cab := (&fakeFiles{}).add("a.csv", "1,2")
	a := &fakeDocuments{documents: []domain.Document{paper("doc_1", "b.csv", 10), paper("doc_2", "c.csv", 10)}}
	outcome := python.Outcome{Removed: []string{"a.csv", "b.csv"}, Files: []python.File{{Name: "c.csv", Content: []byte("changed")}}}
	_, got, message := addDocuments(t, cab, a, true, outcome, "doc_1", "doc_2")
	if message != "" || got.names() != "c.csv" || !slices.Equal(cab.removed, []string{"a.csv"}) || len(cab.made) != 1 {
		t.Errorf("%s; kept %s, removed %v", message, got.names(), cab.removed)
	}
}

func TestDocumentsAreDescribedWhereThereAreSome(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		with := codeexec.Spec(domain.CodeTool{KeepFiles: keeps}, sandbox.Limits{}, true)
		without := codeexec.Spec(domain.CodeTool{KeepFiles: keeps}, sandbox.Limits{}, false)
		if !strings.Contains(with.Description, "documentId") || !strings.Contains(string(with.Schema), "documentId") || !json.Valid(with.Schema) ||
			strings.Contains(without.Description+string(without.Schema), "document") {
			t.Errorf("keeps %v: %s; %s", keeps, with.Description, without.Description)
		}
	}
}
