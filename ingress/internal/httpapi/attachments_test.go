package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/outbound"
)

// drawnPNG returns a PNG image with two rows of pixels.
func drawnPNG(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 2))))
	return b.Bytes()
}

// upload stores a file and returns its id.
func (a *runEnv) upload(query, contentType, content string, headers ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/files"+query, content, append(headers, "Content-Type: "+contentType)...).text(a.t, "id")
}

// chatWith sends a message with attachments. The attachments are a JSON list.
func (a *runEnv) chatWith(agentID, attachments string, headers ...string) answer {
	a.t.Helper()
	return a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"look","attachments":`+attachments+`}`,
		append(headers, "Prefer: respond-async")...)
}

func TestUploads(t *testing.T) {
	t.Parallel()
	a, h, _ := fileEnv(t)
	image := string(drawnPNG(t, 3))
	for name, c := range map[string]struct {
		query, contentType, content string
		want                        string
	}{
		"image":              {"?name=a.png", "image/png", image, "a.png image/png"},
		"another type":       {"?name=a.txt", "text/plain", image, "a.txt image/png"},
		"without a name":     {"", "image/jpeg", image, "file.png image/png"},
		"PDF":                {"?name=a.pdf", "application/octet-stream", "%PDF-1.7", "a.pdf application/pdf"},
		"Markdown":           {"?name=notes.md", "application/octet-stream", "# Notes", "notes.md text/markdown"},
		"JSON":               {"?name=a.json&sessionId=s", "application/json", `{"a":1}`, "a.json application/json"},
		"CSV by its type":    {"", "text/csv; charset=utf-8", "a,b", "file.csv text/csv"},
		"a path as its name": {"?name=..%2F..%2Fetc%2Fpasswd.txt", "text/plain", "x", "passwd.txt text/plain"},
		"DOCX":               {"?name=a.docx", "application/octet-stream", "PK\x03\x04 and so on", "a.docx application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	} {
		got := a.from("POST", "/api/files"+c.query, c.content, h.key, "Content-Type: "+c.contentType).want(t, name, 201, "")
		if shown := got.text(t, "name") + " " + got.text(t, "mimeType"); shown != c.want || got.json(t, "bytes") != json.Number(fmt.Sprint(len(c.content))) && fmt.Sprint(got.json(t, "bytes")) != fmt.Sprint(len(c.content)) {
			t.Errorf("%s: %s, %v bytes", name, shown, got.json(t, "bytes"))
		}
	}

	huge := bytes.Clone(drawnPNG(t, 3))
	copy(huge[16:], "\x00\x00\xff\xff\x00\x00\xff\xff")
	for name, c := range map[string]struct {
		query, contentType, content string
		status                      int
		want                        string
	}{
		"SVG":            {"?name=a.svg", "image/svg+xml", "<svg/>", 415, "unsupported_media_type"},
		"archive":        {"?name=a.zip", "application/zip", "PK\x03\x04 and so on", 415, "unsupported_media_type"},
		"program":        {"?name=a", "application/octet-stream", "\x7fELF\x00\x00", 415, "unsupported_media_type"},
		"not an image":   {"?name=a.png", "image/png", "\x00\x01\x02", 415, "unsupported_media_type"},
		"megapixels":     {"?name=a.png", "image/png", string(huge), 400, "invalid_request file:invalid_value"},
		"damaged":        {"?name=a.png", "image/png", image[:20], 400, "invalid_request file:invalid_value"},
		"too large":      {"?name=a.txt", "text/plain", strings.Repeat("x", 20<<20+1), 413, "payload_too_large"},
		"empty":          {"?name=a.txt", "text/plain", "", 400, "invalid_request body:required"},
		"bad session":    {"?sessionId=" + strings.Repeat("s", 129), "text/plain", "x", 400, "invalid_request sessionId:too_long"},
		"hidden in name": {"?name=a%E2%80%AEb", "text/plain", "x", 400, "invalid_request name:invalid_value"},
		"an id":          {"?id=" + id.New(id.File), "text/plain", "x", 400, "invalid_request id:unknown_field"},
	} {
		a.from("POST", "/api/files"+c.query, c.content, h.key, "Content-Type: "+c.contentType).want(t, name, c.status, c.want)
	}
	a.from("POST", "/api/files", "x", sayDemo, "Content-Type: text/plain").want(t, "demo", 403, "demo_restricted")

	a.rebuild(func(d *Deps) { d.FilesPerOrganization = 100 })
	a.from("POST", "/api/files", "x", h.key, "Content-Type: text/plain").want(t, "quota", 429, "budget_exceeded")
}

func TestUploadsInForms(t *testing.T) {
	t.Parallel()
	a, h, _ := fileEnv(t)
	form := func(parts ...string) (body, contentType string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, p := range parts {
			field, value, _ := strings.Cut(p, "=")
			header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + field + `"`}}
			if field == "file" {
				header = textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="notes.md"`}, "Content-Type": {"text/markdown"}}
			}
			part, err := w.CreatePart(header)
			must(t, err)
			_, err = part.Write([]byte(value))
			must(t, err)
		}
		must(t, w.Close())
		return b.String(), "Content-Type: " + w.FormDataContentType()
	}
	body, contentType := form("sessionId=s", "file=# Notes")
	got := a.from("POST", "/api/files", body, h.key, contentType).want(t, "form", 201, "")
	if got.text(t, "name") != "notes.md" || got.text(t, "mimeType") != "text/markdown" {
		t.Errorf("%s", got.body)
	}
	body, contentType = form("name=a.csv", "sessionId=", "file=a,b")
	got = a.from("POST", "/api/files", body, h.key, contentType).want(t, "an empty session", 201, "")
	if session := a.one(`SELECT coalesce(session_name, '') FROM files WHERE id = $1`, got.text(t, "id")); session != "" || got.text(t, "name") != "a.csv" {
		t.Errorf("session %q: %s", session, got.body)
	}
	for want, parts := range map[string][]string{
		"invalid_request file:required":           {"sessionId=s"},
		"invalid_request file:too_long":           {"file=a", "file=b"},
		"invalid_request body:unknown_field":      {"other=a", "file=b"},
		"invalid_request sessionId:too_long":      {"sessionId=" + strings.Repeat("s", 129), "file=b"},
		"invalid_request sessionId:invalid_value": {"file=b", "sessionId=s"},
		"invalid_request name:invalid_value":      {"file=b", "name=b.csv"},
	} {
		body, contentType := form(parts...)
		a.from("POST", "/api/files", body, h.key, contentType).want(t, want, 400, want)
	}
	body, contentType = form("file=abc")
	a.from("POST", "/api/files", body[:len(body)-20], h.key, contentType).want(t, "truncated", 400, "invalid_request")
}

// A run shows its attachments. Callers who may read the run can open the attachments. A repeated
// request with the same idempotency key and the same attachments gets the same run.
func TestAttachmentsOfChats(t *testing.T) {
	t.Parallel()
	a, h, _ := fileEnv(t)
	agentID := a.newAgent(h)
	image := drawnPNG(t, 3)
	uploaded := a.upload("?name=notes.md&sessionId=s", "text/markdown", "# Notes", h.member.auth, h.header)
	list := `[{"fileId":"` + uploaded + `"},{"data":"` + base64.StdEncoding.EncodeToString(image) + `","mediaType":"image/png"},{"data":"aGk=","name":"notes.md"}]`
	sent := a.chatWith(agentID, list, h.member.auth, h.header, "Idempotency-Key: k").want(t, "chat", 202, "")
	runID := sent.text(t, "id")
	want := "notes.md text/markdown, file.png image/png, notes (2).md text/markdown"
	for name, got := range map[string]answer{"accepted": sent, "open": a.ok("GET", "/api/runs?id="+runID, "", h.key)} {
		var run domain.Run
		must(t, json.Unmarshal(got.body, &run))
		shown := make([]string, len(run.Attachments))
		for i, f := range run.Attachments {
			shown[i] = f.Name + " " + f.MediaType
		}
		if strings.Join(shown, ", ") != want || run.Attachments[0].FileID == uploaded {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	fileID := sent.text(t, "attachments.1.fileId")
	if got := a.ok("GET", "/api/files?id="+fileID, "", h.member.auth, h.header); !bytes.Equal(got.body, image) {
		t.Errorf("%d bytes", len(got.body))
	}
	a.from("GET", "/api/files?id="+uploaded, "", h.member.auth, h.header).want(t, "an upload", 404, "not_found")

	if again := a.chatWith(agentID, list, h.member.auth, h.header, "Idempotency-Key: k"); again.text(t, "id") != runID {
		t.Errorf("%s", again.body)
	}
	a.chatWith(agentID, `[{"data":"aGk=","name":"notes.md"}]`, h.member.auth, h.header, "Idempotency-Key: k").want(t, "other attachments", 422, "idempotency_key_reused")

	// A file of a run can be attached again, in any session that the same callers may read.
	again := a.chatWith(agentID, `[{"fileId":"`+fileID+`"}]`, h.member.auth, h.header).want(t, "a run's file", 202, "")
	if again.text(t, "attachments.0.name") != "file.png" {
		t.Errorf("%s", again.body)
	}
	trigger := `{"target":"` + agentID + `","input":{"message":"m"},"attachments":[{"data":"aGk="}]}`
	got := a.from("POST", "/api/internal/run-automation", trigger, h.key, "Prefer: respond-async").want(t, "trigger", 202, "")
	if got.text(t, "attachments.0.name") != "file.txt" {
		t.Errorf("%s", got.body)
	}
}

// The attachments of a run have the same form in the run object, in lists of runs and in the
// messages of a session.
func TestListsShowAttachments(t *testing.T) {
	t.Parallel()
	a, h, plain := fileEnv(t)
	agentID := a.newAgent(h)
	away, other := a.newTestOrg("away"), a.person("other")
	a.enter(other, h.org, domain.RoleMember)
	sent := a.chatWith(agentID, `[{"data":"aGk=","name":"a.md"},{"data":"aGk=","name":"b.csv"}]`, h.member.auth, h.header).want(t, "chat", 202, "")
	runID := sent.text(t, "id")
	want, err := json.Marshal(sent.json(t, "attachments"))
	must(t, err)
	check := func(when string) {
		t.Helper()
		lists := []string{"/api/runs?agentId=" + agentID, "/api/sessions?id=s&agentId=" + agentID}
		if when == "finished" {
			lists = append(lists, "/api/runs?q=csv")
		}
		for _, list := range lists {
			at := "data.0.attachments"
			if strings.Contains(list, "sessions") {
				at = "messages.0.attachments"
			}
			got, err := json.Marshal(a.ok("GET", list, "", h.member.auth, h.header).json(t, at))
			if err != nil || !bytes.Equal(got, want) || len(want) < 100 {
				t.Errorf("%s, %s: %s, want %s", when, list, got, want)
			}
		}
		for who, headers := range map[string][]string{"stranger": {away.key}, "another member": {other.auth, h.header}} {
			for _, list := range []string{"/api/runs", "/api/sessions", "/api/sessions?id=s&agentId=" + agentID} {
				if got := a.from("GET", list, "", headers...); bytes.Contains(got.body, []byte("a.md")) || bytes.Contains(got.body, []byte(runID)) {
					t.Errorf("%s, %s, %s: %s", when, who, list, got.body)
				}
			}
		}
	}
	check("queued")
	a.finish("done", runID)
	_, err = a.store.Runs.IndexRuns(t.Context(), 100)
	must(t, err)
	check("finished")
	if got := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", h.member.auth, h.header); bytes.Count(got.body, []byte("attachments")) != 1 {
		t.Errorf("the answer has attachments: %s", got.body)
	}
	if got := a.ok("GET", "/api/runs?export=csv&agentId="+agentID, "", h.key); !strings.HasSuffix(string(got.body), ",a.md; b.csv,CHF\n") {
		t.Errorf("%s", got.body)
	}
	for _, run := range a.ok("GET", "/api/runs", "", h.key).json(t, "data").([]any) {
		if run := run.(map[string]any); run["id"] == plain && run["attachments"] != nil {
			t.Errorf("%v", run)
		}
	}
}

// A message with files needs no text.
func TestMessagesWithOnlyFiles(t *testing.T) {
	t.Parallel()
	a, h, _ := fileEnv(t)
	agentID := a.newAgent(h)
	const file = `"attachments":[{"data":"aGk=","name":"a.md"}]`
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(drawnPNG(t, 2))
	chat, trigger := "/api/agents?action=chat&id="+agentID, "/api/internal/run-automation"
	for body, at := range map[string]string{
		`{"sessionId":"1",` + file + `}`:                                   chat,
		`{"sessionId":"2","message":"",` + file + `}`:                      chat,
		`{"target":"` + agentID + `","input":{"message":""},` + file + `}`: trigger,
	} {
		got := a.from("POST", at, body, h.key, "Prefer: respond-async").want(t, body, 202, "")
		if in := a.callInput(got.text(t, "id")); in.Message != "" || len(in.Attachments) != 1 {
			t.Errorf("%s: %+v", body, in)
		}
	}
	got := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","background":true,"input":[{"role":"user","content":[{"type":"input_image","image_url":"`+image+`"}]},`+
		`{"role":"assistant","content":"A line."},{"role":"user","content":[{"type":"input_image","image_url":"`+image+`"}]}]}`, h.key)
	in := a.callInput("run" + strings.TrimPrefix(got.text(t, "id"), "resp"))
	if in.Message != "" || len(in.Attachments) != 2 || len(in.History) != 1 || in.History[0].Message == "" {
		t.Errorf("%+v", in)
	}

	for body, c := range map[string][2]string{
		`{"sessionId":"s"}`:                                              {chat, "invalid_request message:required"},
		`{"sessionId":"s","attachments":[]}`:                             {chat, "invalid_request message:required"},
		`{"sessionId":"s","message":"","attachments":[]}`:                {chat, "invalid_request message:too_short"},
		`{"sessionId":"s","message":null,` + file + `}`:                  {chat, "invalid_request message:invalid_type"},
		`{"target":"` + agentID + `","input":{"message":""}}`:            {trigger, "invalid_request input.message:too_short"},
		`{"target":"` + agentID + `","input":{"city":"x"},` + file + `}`: {trigger, "invalid_request input.message:required"},
	} {
		a.from("POST", c[0], body, h.key).want(t, body, 400, c[1])
	}
}

func TestFaultsOfAttachments(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	client, err := outbound.New(outbound.Config{})
	must(t, err)
	a.rebuild(func(d *Deps) { d.Fetches = client })
	agentID := a.newAgent(h)
	away, other := a.newTestOrg("away"), a.person("other")
	a.enter(other, h.org, domain.RoleMember)
	foreign := a.upload("?name=a.txt", "text/plain", "secret", away.key)
	theirs := a.upload("?name=a.txt", "text/plain", "secret", other.auth, h.header)
	elsewhere := a.upload("?name=a.txt&sessionId=other", "text/plain", "secret", h.member.auth, h.header)
	foreignRun := a.file(a.newChat(away, a.newAgent(away), "s", away.key), "foreign")
	_ = runID

	many := strings.Repeat(`{"data":"aGk="},`, 10) + `{"data":"aGk="}`
	for list, want := range map[string]string{
		`[{}]`: "invalid_request attachments[0]:invalid_value",
		`[{"data":"aGk=","url":"https://example.com"}]`:  "invalid_request attachments[0]:invalid_value",
		`[{"data":"aGk="},{"data":"*"}]`:                 "invalid_request attachments[1].data:invalid_value",
		`[{"data":"aGk=","mediaType":"x"}]`:              "invalid_request attachments[0].mediaType:invalid_value",
		`[{"data":"AAEC"}]`:                              "invalid_request attachments[0].data:invalid_value",
		`[` + many + `]`:                                 "invalid_request attachments:too_long",
		`[{"url":"ftp://example.com/a"}]`:                "invalid_request attachments[0].url:invalid_value",
		`[{"url":"http://127.0.0.1/a"}]`:                 "invalid_request attachments[0].url:invalid_value",
		`[{"url":"http://169.254.169.254/latest"}]`:      "invalid_request attachments[0].url:invalid_value",
		`[{"url":"http://[::ffff:10.0.0.1]/"}]`:          "invalid_request attachments[0].url:invalid_value",
		`[{"fileId":"x"}]`:                               "invalid_request attachments[0].fileId:invalid_value",
		`[{"fileId":"` + id.New(id.File) + `"}]`:         "invalid_request attachments[0].fileId:invalid_value",
		`[{"data":"aGk="},{"fileId":"` + foreign + `"}]`: "invalid_request attachments[1].fileId:invalid_value",
		`[{"fileId":"` + foreignRun + `"}]`:              "invalid_request attachments[0].fileId:invalid_value",
		`[{"fileId":"` + theirs + `"}]`:                  "invalid_request attachments[0].fileId:invalid_value",
		`[{"fileId":"` + elsewhere + `"}]`:               "invalid_request attachments[0].fileId:invalid_value",
	} {
		a.chatWith(agentID, list, h.member.auth, h.header).want(t, list, 400, want)
	}
	a.from("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m","attachments":[{"data":"aGk="}]}`, sayDemo).
		want(t, "demo", 403, "demo_restricted")

	a.ok("PUT", "/api/agents?id="+agentID, `{"model":"openai/gpt-3.5-turbo"}`, h.key)
	picture := base64.StdEncoding.EncodeToString(drawnPNG(t, 2))
	got := a.chatWith(agentID, `[{"data":"aGk="},{"data":"`+picture+`"}]`, h.member.auth, h.header).
		want(t, "a model without images", 400, "invalid_request attachments[1]:invalid_value")
	if !strings.Contains(string(got.body), "openai/gpt-3.5-turbo") {
		t.Errorf("%s", got.body)
	}
	a.logsClean("secret")
}

// OpenAI's protocols accept images and files in the user's messages.
func TestAttachmentsOfOpenAIClients(t *testing.T) {
	t.Parallel()
	a, h, _ := fileEnv(t)
	agentID := a.newAgent(h)
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(drawnPNG(t, 2))
	document := "data:text/markdown;base64," + base64.StdEncoding.EncodeToString([]byte("# Notes"))
	attached := func(runID string) string {
		var run domain.Run
		must(t, json.Unmarshal(a.ok("GET", "/api/runs?id="+runID, "", h.key).body, &run))
		shown := ""
		for _, f := range run.Attachments {
			shown += f.Name + " " + f.MediaType + "; "
		}
		return shown
	}
	got := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","background":true,"input":[{"role":"user","content":[`+
		`{"type":"input_text","text":"look"},{"type":"input_image","image_url":"`+image+`"},{"type":"input_file","filename":"n.md","file_data":"`+document+`"}]}]}`, h.key)
	runID := "run" + strings.TrimPrefix(got.text(t, "id"), "resp")
	if shown := attached(runID); shown != "file.png image/png; n.md text/markdown; " {
		t.Errorf("%s: %s", runID, shown)
	}
	response := func(part string) answer {
		return a.from("POST", "/v1/responses", `{"model":"`+agentID+`","background":true,"input":[{"role":"user","content":[`+part+`]}]}`, h.key)
	}
	for part, want := range map[string][2]string{
		`{"type":"input_file","filename":"n.md"}`:                                      {"file_data", "is required, unless the part has file_url or file_id"},
		`{"type":"input_file","file_data":"*"}`:                                        {"file_data", "must be base64, a data URL with base64, or a URL that begins with https:// or http://"},
		`{"type":"input_file","file_url":"ftp://example.com/a"}`:                       {"file_url", "must be a URL that begins with https:// or http://, without a user name"},
		`{"type":"input_file","file_url":"https://example.com/a","file_data":"aGk="}`:  {"", "must have only one of file_data, file_url and file_id"},
		`{"type":"input_file","filename":"a.zip","file_data":"UEsDBA=="}`:              {"", "supported types are PNG, JPEG, WebP and GIF images, and PDF, DOCX"},
		`{"type":"input_image"}`:                                                       {"image_url", "is required, unless the part has file_id"},
		`{"type":"input_image","image_url":"https://example.com/a","file_id":"file_"}`: {"", "must have only one of image_url and file_id"},
	} {
		got := response(part).want(t, part, 400, strings.TrimSuffix("invalid_request input[0].content[0]."+want[0], "."))
		if !strings.Contains(got.text(t, "error.message"), want[1]) {
			t.Errorf("%s: %s", part, got.body)
		}
	}

	completion := func(content string) answer {
		return a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[{"role":"user","content":`+content+`}]}`, h.key)
	}
	for content, want := range map[string]string{
		`[{"type":"image_url"}]`: "invalid_request messages[0].content[0].image_url",
		`[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png,abc"}}]`: "invalid_request messages[0].content[1].image_url",
		`[{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,PHN2Zy8+AA=="}}]`:        "invalid_request messages[0].content[0]",
		`[{"type":"file","file":{"file_id":"file_x"}}]`:                                              "invalid_request messages[0].content[0]",
		`[{"type":"image_url","image_url":{"url":"https://user@example.com/"}}]`:                     "invalid_request messages[0].content[0].image_url",
		`[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]`:                          "invalid_request messages[0].content[0].type",
	} {
		completion(content).want(t, content, 400, want)
	}
	a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"`+image+`"}}]},{"role":"user","content":"a"}]}`, h.key).
		want(t, "an image of the system", 400, "invalid_request messages[0].content[0].type")
}

// User interface libraries send files as parts of the user's messages.
func TestAttachmentsOfFormats(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	image := base64.StdEncoding.EncodeToString(drawnPNG(t, 2))
	dataURL := "data:image/png;base64," + image
	send := func(format, body string) (in domain.Input, runID string) {
		t.Helper()
		a.ok("POST", "/api/agents?action=chat&format="+format+"&id="+agentID, body, h.key)
		must(t, a.sql.QueryRowContext(t.Context(), `SELECT id FROM runs WHERE org_id = $1 ORDER BY id DESC LIMIT 1`, h.org).Scan(&runID))
		return a.callInput(runID), runID
	}
	check := func(name string, in domain.Input, message, names string) {
		t.Helper()
		shown := make([]string, len(in.Attachments))
		for i, f := range in.Attachments {
			shown[i] = f.Name
		}
		if in.Message != message || strings.Join(shown, " ") != names {
			t.Errorf("%s: %+v", name, in)
		}
	}

	in, _ := send("ai-sdk", `{"id":"sdk","messages":[{"id":"1","role":"user","parts":[{"type":"file","mediaType":"image/png","filename":"a.png","url":"`+dataURL+`"},{"type":"text","text":"look"}]}]}`)
	check("AI SDK", in, "look", "a.png")
	in, _ = send("ai-sdk", `{"id":"sdk2","messages":[{"id":"1","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"`+dataURL+`"}]}]}`)
	check("AI SDK, only a file", in, "", "file.png")
	in, _ = send("ai-sdk", `{"id":"copied","messages":[{"id":"1","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"`+dataURL+`"}]},`+
		`{"id":"2","role":"assistant","parts":[{"type":"text","text":"A line."}]},{"id":"3","role":"user","parts":[{"type":"text","text":"and?"}]}]}`)
	check("AI SDK, a copied chat", in, "and?", "")
	if len(in.History) != 1 || in.History[0].Message == "" || in.History[0].Answer != "A line." {
		t.Errorf("%+v", in.History)
	}

	first := `{"id":"1","role":"user","content":[{"type":"image","source":{"type":"data","value":"` + image + `","mimeType":"image/png"}},{"type":"text","text":"one"}]}`
	in, runID := send("ag-ui", `{"threadId":"t","runId":"r","messages":[`+first+`]}`)
	check("AG-UI", in, "one", "file.png")
	content, err := json.Marshal(formatAnswer)
	must(t, err)
	answer := `{"id":"msg_` + strings.TrimPrefix(runID, "run_") + `_2","role":"assistant","content":` + string(content) + `}`
	second := `{"id":"3","role":"user","content":[{"type":"binary","mimeType":"text/markdown","filename":"n.md","data":"aGk="}]}`
	in, _ = send("ag-ui", `{"threadId":"t","runId":"r","messages":[`+first+`,`+answer+`,`+second+`]}`)
	check("AG-UI, the next message", in, "", "n.md")
	in, _ = send("ag-ui", `{"threadId":"copied","runId":"r","messages":[`+first+`,{"id":"2","role":"assistant","content":"A line."},`+second+`]}`)
	check("AG-UI, a copied thread", in, "", "file.png n.md")
	if len(in.History) != 1 || in.History[0].Message != "one" {
		t.Errorf("%+v", in.History)
	}

	for body, want := range map[string]string{
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"file"}]}]}`:                                                                                                   "messages[0].parts[0].url:required",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"file","url":"blob:x"}]}]}`:                                                                                    "messages[0].parts[0].url:invalid_value",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"file","url":"data:image/svg+xml;base64,PHN2Zy8+AA=="}]}]}`:                                                    "messages[0].parts[0]:invalid_value",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"image"}]}]}`:                                                                                                  "messages[0].parts[0].source:required",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"reasoning","text":"x"}]}]}`:                                                                                   "messages[0].parts[0]:invalid_value",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"data-page","data":{"url":"x"}}]}]}`:                                                                           "messages[0].parts[0]:invalid_value",
		`{"id":"x","messages":[{"role":"user","parts":[{"type":"binary","data":{}}]}]}`:                                                                                       "messages[0].parts[0].data:invalid_type",
		`{"id":"x","messages":[{"role":"user","parts":[` + strings.Repeat(`{"type":"file","url":"data:;base64,aGk="},`, 10) + `{"type":"file","url":"data:;base64,aGk="}]}]}`: "messages[0].parts:too_long",
		`{"id":"x","messages":[{"role":"user","parts":[]}]}`:                                                                                                                  "messages[0].parts:too_short",
	} {
		a.from("POST", "/api/agents?action=chat&format=ai-sdk&id="+agentID, body, h.key).want(t, body, 400, "invalid_request "+want)
	}
}
