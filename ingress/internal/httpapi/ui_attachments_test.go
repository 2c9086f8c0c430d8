package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
)

// askWithFiles sends a request of a user interface library, and returns the message and the files of its run.
func (a *runEnv) askWithFiles(target, body string, headers ...string) (message, files string) {
	a.t.Helper()
	got := a.from("POST", target, body, headers...).want(a.t, body, 200, "")
	runID := strings.TrimPrefix(got.header.Get("Location"), "/api/runs?id=")
	var timeline struct {
		Input domain.Input `json:"input"`
	}
	must(a.t, json.Unmarshal(a.ok("GET", "/api/runs?timeline=1&id="+runID, "", headers[0]).body, &timeline))
	for _, f := range timeline.Input.Attachments {
		files += f.Name + " " + f.MediaType + "; "
	}
	return timeline.Input.Message, files
}

// The AI SDK and AG-UI send images and documents as parts of the user's message.
func TestAttachmentsOfUserInterfaces(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	chat := "/api/agents?action=chat&id=" + agentID + "&format="
	image := base64.StdEncoding.EncodeToString(drawnPNG(t, 2))
	note := "data:text/markdown;base64," + base64.StdEncoding.EncodeToString([]byte("# Notes"))
	check := func(name, target, body, wantMessage, wantFiles string, headers ...string) {
		t.Helper()
		if message, files := a.askWithFiles(target, body, append([]string{h.key}, headers...)...); message != wantMessage || files != wantFiles {
			t.Errorf("%s: %q with %q, want %q with %q", name, message, files, wantMessage, wantFiles)
		}
	}

	sdk := func(parts string) string {
		return `{"id":"s","messages":[{"id":"m","role":"user","parts":[` + parts + `]}]}`
	}
	picture := `{"type":"file","mediaType":"image/png","filename":"dot.png","url":"data:image/png;base64,` + image + `"}`
	check("the AI SDK's", chat+"ai-sdk", sdk(picture+`,{"type":"file","mediaType":"text/markdown","url":"`+note+`"},{"type":"text","text":"look"}`),
		"look", "dot.png image/png; file.md text/markdown; ")
	check("without text", chat+"ai-sdk", sdk(picture), "(see the attachment)", "dot.png image/png; ", "Idempotency-Key: k")
	a.from("POST", chat+"ai-sdk", sdk(strings.Replace(picture, "dot", "other", 1)), h.key, "Idempotency-Key: k").want(t, "another file", 422, "idempotency_key_reused")

	// An AG-UI client repeats all messages. The session has the earlier files; another thread lacks them.
	agui := func(thread, more string) string {
		return `{"threadId":"` + thread + `","runId":"r","messages":[{"id":"1","role":"user","content":[{"type":"text","text":"look"},` +
			`{"type":"image","source":{"type":"data","value":"` + image + `","mimeType":"image/png"}},` +
			`{"type":"document","source":{"type":"url","value":"` + note + `"}}]}` + more + `]}`
	}
	answer, err := json.Marshal(formatAnswer)
	must(t, err)
	next := `,{"id":"2","role":"assistant","content":` + string(answer) + `},{"id":"3","role":"user","content":"And now?"}`
	check("AG-UI's", chat+"ag-ui", agui("t", ""), "look", "file.png image/png; file.md text/markdown; ")
	check("the next message", chat+"ag-ui", agui("t", next), "And now?", "")
	check("a copied thread", chat+"ag-ui", agui("u", next), "And now?", "file.png image/png; file.md text/markdown; ")
	uploaded := a.upload("?name=notes.md", "text/markdown", "# Notes", h.key)
	check("an uploaded file", chat+"ag-ui", `{"threadId":"v","messages":[{"id":"1","role":"user","content":[{"type":"document","source":{"type":"file","value":"`+uploaded+`"}}]}]}`,
		"(see the attachment)", "notes.md text/markdown; ")

	for content, want := range map[string]string{
		`[{"type":"image","source":{"type":"data","value":"?","mimeType":"image/png"}}]`: "invalid_request messages[1].content[0].source.value:invalid_value",
		`[{"type":"image","source":{"type":"data","value":"","mimeType":"image/png"}}]`:  "invalid_request messages[1].content[0].source.value:required",
		`[{"type":"image"}]`: "invalid_request messages[1].content[0].url:required",
		`[{"type":"document","source":{"type":"data","value":"UEsDBHggeA==","mimeType":"application/zip"}}]`:                                                              "invalid_request messages[1].content[0]:invalid_value",
		`[{"type":"document","source":{"type":"file","value":"file_x"}}]`:                                                                                                 "invalid_request messages[1].content[0]:invalid_value",
		`[{"type":"audio","source":{"type":"data","value":"` + image + `","mimeType":"audio/wav"}}]`:                                                                      "invalid_request messages[1].content[0]:invalid_value",
		`[` + strings.Repeat(`{"type":"image","source":{"type":"data","value":"`+image+`"}},`, 10) + `{"type":"image","source":{"type":"data","value":"` + image + `"}}]`: "invalid_request attachments:too_long",
	} {
		body := `{"threadId":"w","messages":[{"id":"s","role":"system","content":"Be brief."},{"id":"1","role":"user","content":` + content + `}]}`
		a.from("POST", chat+"ag-ui", body, h.key).want(t, content, 400, want)
	}
	system := `{"threadId":"w","messages":[{"id":"s","role":"system","content":[{"type":"image","source":{"type":"data","value":"` + image + `"}}]},{"id":"1","role":"user","content":"m"}]}`
	a.from("POST", chat+"ag-ui", system, h.key).want(t, "an image of the system", 400, "invalid_request messages[0].content[0]:invalid_value")
	a.from("POST", "/api/agents?action=chat&template=tpl_support&format=ai-sdk", sdk(picture), sayDemo).want(t, "the demo", 403, "demo_restricted")
}
