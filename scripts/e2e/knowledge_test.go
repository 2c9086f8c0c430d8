package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
	"parley/shared/testkit/pdf"
)

// kept contains the fields of a document in the API that these tests use.
type kept struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Pages  int    `json:"pages"`
	Chunks int    `json:"chunks"`
	Error  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// upload uploads a document as a multipart form, and returns it.
func (a account) upload(t *testing.T, name string, content []byte, metadata string) kept {
	t.Helper()
	var fields map[string]string
	if metadata != "" {
		fields = map[string]string{"metadata": metadata}
	}
	body, contentType := api.Form(name, content, fields)
	header := map[string]string{"X-Api-Key": a.key, "Content-Type": contentType}
	var d kept
	api.Send(t.Context(), http.MethodPost, a.url+"/api/knowledge", header, body).Want(t, http.StatusAccepted).Into(t, &d)
	return d
}

func (a account) document(t *testing.T, id string) (d kept) {
	t.Helper()
	a.get(t.Context(), "/api/knowledge?id="+id).Want(t, http.StatusOK).Into(t, &d)
	return d
}

// processed waits until a document is ready or failed, and returns it.
func (a account) processed(t *testing.T, id string, within time.Duration) (d kept) {
	t.Helper()
	testkit.Poll(t, 200*time.Millisecond, within, "document "+id+" is processed", func() bool {
		d = a.document(t, id)
		return d.Status == "ready" || d.Status == "failed"
	})
	return d
}

// finds returns the IDs of the documents found by a search, best first.
func (a account) finds(t *testing.T, query string) (ids []string) {
	t.Helper()
	var found struct {
		Data []struct {
			DocumentID string `json:"documentId"`
		} `json:"data"`
	}
	a.get(t.Context(), "/api/knowledge?query="+url.QueryEscape(query)).Want(t, http.StatusOK).Into(t, &found)
	for _, f := range found.Data {
		ids = append(ids, f.DocumentID)
	}
	return ids
}

// reader creates an agent that answers from the organization's documents.
func (a account) reader(t *testing.T, model string) account {
	t.Helper()
	a.agent = api.CreateAgent(t, a.url, a.key, map[string]any{
		"name": "Reader", "systemPrompt": "Answer from the documents.", "model": model,
		"tools": map[string]any{"knowledge": map[string]any{"enabled": true}},
	})
	return a
}

// manual returns a PDF of twelve pages. Page seven contains the lamp's warranty period. Every page
// contains the text mark.
func manual(mark string) []byte {
	pages := make([]pdf.Page, 12)
	for i := range pages {
		pages[i] = pdf.Page{Heading: fmt.Sprintf("Chapter %d", i+1), Paragraphs: []string{
			fmt.Sprintf("This chapter of the manual is about part number %d of the machine, which the factory in Lund makes.", 100+i),
			"Serial " + mark + " is stamped on the lower side of each part.",
		}}
	}
	pages[6].Paragraphs = append(pages[6].Paragraphs,
		"The warranty of the Heron lamp is thirty-one months from the day of purchase. It covers the glass, but not the wick.")
	return pdf.Write(pages...)
}

func (a account) chats(t *testing.T, session, message string) (r api.Run) {
	t.Helper()
	got := a.send(t, http.MethodPost, a.url+"/api/agents?id="+a.agent+"&action=chat", map[string]any{"sessionId": session, "message": message})
	got.Want(t, http.StatusOK).Into(t, &r)
	if r.Status != "completed" {
		t.Fatalf("%s: %s", message, got.Body)
	}
	return r
}

// answersCiteTheirPage asks the offline model about page 7 of a document, opens the citation,
// and then deletes the document. After the deletion, searches and answers contain no part of the
// document, and no part of it is stored.
func answersCiteTheirPage(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	in := s.first
	bus := tap(t, s.cluster)
	owner := signUp(t, in.url).reader(t, "offline")
	mark := "zq" + strings.ToLower(rand.Text())
	sent := owner.upload(t, mark+" manual.pdf", manual(mark), "")
	if d := owner.processed(t, sent.ID, 30*time.Second); d.Status != "ready" || d.Pages != 12 || d.Chunks < 12 {
		t.Fatalf("%+v", d)
	}
	if found := owner.finds(t, "How long is the warranty of the Heron lamp?"); len(found) == 0 || found[0] != sent.ID {
		t.Errorf("found = %v", found)
	}

	r := owner.chats(t, "about the lamp", "How long is the warranty of the Heron lamp?")
	opensItsPage(t, owner, r, sent.ID)
	if none := owner.chats(t, "about whales", "How many whales live in the Baltic Sea?"); len(none.Citations) != 0 || !strings.Contains(none.Message, "do not say") {
		t.Errorf("an answer without a supporting document: %+v", none)
	}

	stranger := signUp(t, in.url).reader(t, "offline")
	if other := stranger.chats(t, "s", "How long is the warranty of the Heron lamp?"); len(other.Citations) != 0 || strings.Contains(other.Message, "thirty-one") {
		t.Errorf("answer of another organization's agent = %+v", other)
	}

	owner.send(t, http.MethodDelete, owner.url+"/api/knowledge?id="+sent.ID, nil).Want(t, http.StatusOK)
	for _, path := range []string{"&page=7", "&content=1", ""} {
		owner.get(t.Context(), "/api/knowledge?id="+sent.ID+path).Refused(t, http.StatusNotFound, "not_found")
	}

	if found := owner.finds(t, "How long is the warranty of the Heron lamp?"); len(found) != 0 {
		t.Errorf("found after the document was deleted = %v", found)
	}

	for _, session := range []string{"about the lamp", "another"} {
		if after := owner.chats(t, session, "And how long was it again, the warranty of the Heron lamp?"); len(after.Citations) != 0 || strings.Contains(after.Message, "thirty-one") {
			t.Errorf("answer after the document was deleted, in session %q = %+v", session, after)
		}
	}

	leavesNothing(t, s.cluster, mark, in.Output(), s.worker.Output())
	for _, said := range bus.with(mark) {
		if strings.HasPrefix(said.subject, "jobs.") || strings.Contains(said.subject, mark) {
			t.Errorf("a bus message on %s contains text from a document: %s", said.subject, said.text)
		}
	}
}

// opensItsPage follows each citation of an answer, and checks that the cited page contains the
// cited words.
func opensItsPage(t *testing.T, owner account, r api.Run, document string) {
	t.Helper()
	if len(r.Citations) == 0 || !strings.Contains(r.Message, "thirty-one months") {
		t.Fatalf("%+v", r)
	}

	for _, cited := range r.Citations {
		if cited.Type != "document" || cited.DocumentID != document || cited.Page != 7 || !strings.HasSuffix(cited.Title, "manual.pdf") {
			t.Errorf("%+v", cited)
		}
		if words := []rune(r.Message); cited.StartIndex < 0 || cited.EndIndex > len(words) || cited.StartIndex >= cited.EndIndex {
			t.Errorf("the citation supports the characters %d to %d of %d", cited.StartIndex, cited.EndIndex, len(words))
		}
		var page struct {
			Page int    `json:"page"`
			Text string `json:"text"`
		}
		owner.get(t.Context(), cited.URL).Want(t, http.StatusOK).Into(t, &page)
		if page.Page != 7 || cited.CitedText == "" || !strings.Contains(page.Text, cited.CitedText) {
			t.Errorf("%q is not on page %d: %q", cited.CitedText, page.Page, page.Text)
		}
	}
}

// leavesNothing fails the test if a mark of the deleted document occurs in a table, in a file of
// JetStream, or in a log.
func leavesNothing(t *testing.T, c *cluster, mark string, logs ...string) {
	t.Helper()
	rows, err := c.db.QueryContext(t.Context(), `SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c
		JOIN information_schema.tables t USING (table_schema, table_name) WHERE table_schema = 'public' AND t.table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var looked, found int
	var queries []string
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf(`%q::text ILIKE '%%' || $1 || '%%'`, column)
		if kind == "bytea" {
			where = fmt.Sprintf(`position(convert_to($1, 'UTF8') IN %q) > 0`, column)
		}
		queries = append(queries, fmt.Sprintf(`SELECT count(*), '%s.%s' FROM %q WHERE %s`, table, column, table, where))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, query := range queries {
		var n int
		var where string
		if err := c.db.QueryRowContext(t.Context(), query, mark).Scan(&n, &where); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		looked++
		if found += n; n > 0 {
			t.Errorf("%d rows in %s still contain the document", n, where)
		}
	}
	if looked < 100 {
		t.Errorf("searched only %d columns", looked)
	}
	err = filepath.WalkDir(c.store, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the server has removed the file meanwhile
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(content, []byte(mark)) {
			t.Errorf("%s still contains the mark", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		if strings.Contains(log, mark) {
			t.Error("a log contains text from a document")
		}
	}
}
