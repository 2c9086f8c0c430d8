package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
)

// answerWithFile finishes a run. In the run, code execution has created a file, and the answer
// cites a web page.
func (a *runEnv) answerWithFile(runID string, appendSources bool) domain.File {
	a.t.Helper()
	claim := a.claim(a.t, runID).Run
	files, _, err := a.store.Blobs.KeepFiles(a.t.Context(), claim.Held(), "call_1",
		[]blobdb.NewFile{{Name: "plot.png", MIMEType: "image/png", Content: numbers(100)}}, nil, 0)
	must(a.t, err)
	output, err := json.Marshal(map[string]any{"stdout": "", "stderr": "", "files": files})
	must(a.t, err)
	run := claim.Run()
	text := "Sales grew [1]."
	run.Message, run.Output = &text, &domain.Output{Message: text}
	run.Citations = []domain.Citation{{ID: 1, Type: "web", Title: "Sales [2026]", URL: "https://example.com/a_(b)", CitedText: "grew", EndIndex: 10}}
	run.ToolCalls = []domain.ToolCall{{ID: "call_1", Name: "codeExecution", Status: "completed", Input: []byte(`{"code":"x"}`), Output: output}}
	run.AppendSources = appendSources
	run.End(domain.RunCompleted, nil, domain.At(claim.Now), claim.RetentionSecs)
	outcome, err := executiondb.NewOutcome(claim.Held(), run)
	must(a.t, err)
	outcome.EndN = 3 // the last event follows the message
	_, err = a.store.Executions.Finish(a.t.Context(), []executiondb.Outcome{outcome})
	must(a.t, err)
	return files[0]
}

// linksAt returns Links whose clock shows the given time.
func (a *runEnv) linksAt(now time.Time) *filelink.Links {
	return filelink.New(a.api.Signer, "http://parley.test", 24*time.Hour, func() time.Time { return now })
}

// fileLink checks that a link is a URL of this service, and returns the link's path and query.
func fileLink(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Scheme+"://"+u.Host != "http://parley.test" {
		t.Fatalf("link %q, %v", link, err)
	}
	return u.RequestURI()
}

func TestAnswersNameTheirSourcesAndFiles(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	for _, setting := range []bool{false, true} {
		responseID := a.respond(fmt.Sprintf(`{"model":%q,"background":true,"input":"m"}`, agentID), h.key)
		made := a.answerWithFile(runFor(responseID), setting)
		got := a.ok("GET", "/v1/responses/"+responseID, "", h.key)
		text := got.text(t, "output.1.content.0.text")
		link := got.text(t, "output.1.content.0.annotations.1.url")
		want := "Sales grew [1]."
		start, end := len(want), len(want)
		if setting {
			want += "\n\n**Sources**\n\n- [1] [Sales \\[2026\\]](https://example.com/a_%28b%29)\n\n**Files**\n\n- "
			start = len(want)
			want += "![plot.png](" + link + ")"
			end = len(want)
		}
		if text != want {
			t.Errorf("appendSources %v: text %q, want %q", setting, text, want)
		}
		if got.text(t, "output.1.content.0.annotations.1.type") != "container_file_citation" || got.text(t, "output.1.content.0.annotations.1.file_id") != made.ID ||
			got.text(t, "output.1.content.0.annotations.1.container_id") != got.text(t, "output.0.container_id") ||
			got.json(t, "output.1.content.0.annotations.1.start_index") != float64(start) || got.json(t, "output.1.content.0.annotations.1.end_index") != float64(end) {
			t.Errorf("appendSources %v: %s", setting, got.body)
		}
		file := a.ok("GET", fileLink(t, link), "") // without a credential
		if string(file.body) != string(numbers(100)) || file.header.Get("Content-Type") != "image/png" ||
			file.header.Get("Cross-Origin-Resource-Policy") != "cross-origin" || file.header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
			t.Errorf("%d bytes, %v", len(file.body), file.header)
		}
		again := a.ok("GET", "/v1/containers/any/files/"+made.ID+"/content", "", h.key)
		if string(again.body) != string(file.body) {
			t.Errorf("%d bytes of the container's file", len(again.body))
		}
	}
}

// An agent's setting determines whether answers end with a list of sources. A request can override
// the setting, whether its answer is streamed or not. If a client sends such an answer back as
// history, the service removes the list.
func TestRequestsChooseTheListOfSources(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.ok("PUT", "/api/agents?id="+agentID, `{"appendSources":true}`, h.key)
	for metadata, listed := range map[string]bool{`{}`: true, `{"append_sources":"true"}`: true, `{"append_sources":"false"}`: false} {
		for _, streamed := range []bool{false, true} {
			key := "Idempotency-Key: " + a.fresh()
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"m"}],"metadata":%s,"stream":%v}`, agentID, metadata, streamed)
			runID := a.from("POST", "/v1/chat/completions", body, h.key, key).header.Get("X-Parley-Run-Id")
			a.answerWithFile(runID, true)
			got := a.ok("POST", "/v1/chat/completions", body, h.key, key)
			for _, part := range []string{`**Sources**`, `- [1] [Sales`, `**Files**`, `![plot.png](http://parley.test/files?token=`} {
				if strings.Contains(string(got.body), part) != listed {
					t.Errorf("%s, stream %v: contains %s is %v: %s", metadata, streamed, part, !listed, got.body)
				}
			}
			if !strings.Contains(string(got.body), `"url_citation":{"start_index":`) || !strings.Contains(string(got.body), `"title":"plot.png","url":"http://parley.test/files?token=`) {
				t.Errorf("%s, stream %v: no annotation for the file: %s", metadata, streamed, got.body)
			}
		}
	}
	// The original request also determines whether a response that is read later has the list.
	for metadata, listed := range map[string]bool{`{}`: true, `{"append_sources":"true"}`: true, `{"append_sources":"false"}`: false} {
		responseID := a.respond(fmt.Sprintf(`{"model":%q,"background":true,"input":"m","metadata":%s}`, agentID, metadata), h.key)
		a.answerWithFile(runFor(responseID), true)
		if got := a.ok("GET", "/v1/responses/"+responseID, "", h.key); strings.Contains(string(got.body), "**Sources**") != listed {
			t.Errorf("%s, retrieved: lists the sources is %v: %s", metadata, !listed, got.body)
		}
	}
	a.from("POST", "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"m"}],"metadata":{"append_sources":"yes"}}`, agentID), h.key).
		want(t, "another value", 400, "invalid_request metadata.append_sources")
}

func TestLinksToFiles(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	file := a.answerWithFile(a.newChat(h, agentID, "s", h.key), false)
	content := numbers(100)
	link := fileLink(t, a.api.openai.Links.URL(h.org, file.ID))

	got := a.ok("GET", link, "", "Range: bytes=0-9")
	if got.status != 206 || string(got.body) != string(content[:10]) {
		t.Errorf("a part: %d, %q", got.status, got.body)
	}
	if got = a.from("GET", link, "", `If-None-Match: "`+file.SHA256+`"`); got.status != 304 {
		t.Errorf("a known file: %d", got.status)
	}
	if got = a.from("GET", link, "", "Range: bytes=5000-").want(t, "beyond its end", 416, "range_not_satisfiable"); got.header.Get("Content-Range") != "bytes */100" {
		t.Errorf("beyond its end: %v", got.header)
	}
	container := "/v1/containers/s/files/" + file.ID + "/content"
	a.from("GET", container, "", h.key, "Range: bytes=0-9").want(t, "a part of the container's file", 206, "")
	a.from("GET", container, "", h.key, `If-None-Match: "`+file.SHA256+`"`).want(t, "a known file", 304, "")
	a.from("GET", container, "", h.key, "Range: bytes=5000-").want(t, "beyond its end", 416, "range_not_satisfiable")
	a.from("GET", "/v1/containers/s/files/none/content", "", h.key).want(t, "a malformed id", 404, "not_found")

	// A link opens only its own file. A credential or the id of another organization in the request
	// changes nothing.
	away := a.newTestOrg("away")
	a.from("GET", fileLink(t, a.api.openai.Links.URL(away.org, file.ID)), "").want(t, "another organization's link", 404, "not_found")
	a.from("GET", link, "", "X-Api-Key: nonsense").want(t, "with an invalid credential", 200, "")
	a.from("GET", link[:len(link)-1], "").want(t, "a changed link", 404, "not_found")
	a.from("GET", link+"&more=1", "").want(t, "another parameter", 400, "invalid_request more:unknown_field")
	a.from("GET", "/files", "").want(t, "no token", 404, "not_found")

	// Downloads through links occupy the same slots as other downloads.
	var slots []*transfer.Slot
	for range transfer.FilesPerCredential {
		slot, err := a.api.downloads.Enter(transfer.Owner{Organization: h.org, Credential: "link:" + file.ID, Client: "x"}, nil)
		must(t, err)
		slots = append(slots, slot)
	}
	a.from("GET", link, "").want(t, "too many readers", 429, "rate_limited")
	for _, slot := range slots {
		a.api.downloads.Leave(slot)
	}

	a.api.runs.Links = a.linksAt(time.Now().Add(26 * time.Hour))
	a.from("GET", link, "").want(t, "an expired link", 404, "not_found")
	a.api.runs.Links = a.linksAt(time.Now())
	a.from("GET", link, "").want(t, "before its end", 200, "")
	a.ok("DELETE", "/api/sessions?id=s&agentId="+agentID, "", h.key)
	a.from("GET", link, "").want(t, "after the session's erasure", 404, "not_found")
}
