package workers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/testkit/openaistub"
	"parley/shared/testkit/pdf"
	"parley/workers"
)

// sentFile is a file that a test attaches to a message.
type sentFile struct {
	name, mediaType string
	content         []byte
}

// send starts a run whose message has attachments, in the session "s", as an ingress would.
func (r *testEnv) send(agent, message string, files ...sentFile) string {
	r.Helper()
	return r.sendIn("s", agent, message, files...)
}

// sendIn starts a run whose message has attachments, in the given session, as an ingress would.
func (r *testEnv) sendIn(session, agent, message string, files ...sentFile) string {
	r.Helper()
	return r.sendAs("system", session, agent, message, files...)
}

// sendAs starts a run whose message has attachments, in a session of the principal, as an ingress
// would.
func (r *testEnv) sendAs(principal, session, agent, message string, files ...sentFile) string {
	r.Helper()
	runID := id.New(id.Run)
	links := make([]blobdb.NewAttachment, len(files))
	asked := domain.Input{Message: message}
	for i, f := range files {
		stored, err := r.store.Blobs.Upload(r.Context(), r.org, bytes.NewReader(f.content), 20<<20)
		if err != nil {
			r.Fatal(err)
		}
		links[i] = blobdb.NewAttachment{
			Attachment: domain.Attachment{FileID: id.New(id.File), Name: f.name, MediaType: f.mediaType, Bytes: stored.Bytes}, Hash: stored.Hash,
		}
		asked.Attachments = append(asked.Attachments, links[i].Attachment)
	}
	if err := r.store.Blobs.LinkAttachments(r.Context(), r.org, runID, links, 0); err != nil {
		r.Fatal(err)
	}
	return r.startRun(runID, agent, principal, session, asked)
}

// photo returns a JPEG image whose EXIF data contains a secret.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	from := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range from.Pix {
		from.Pix[i] = byte(i / 7)
	}
	from.Set(0, 0, color.White)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, from, nil); err != nil {
		t.Fatal(err)
	}
	exif := "Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00 GPS of the secret house"
	return append(append([]byte{0xff, 0xd8, 0xff, 0xe1, 0, byte(len(exif) + 2)}, exif...), b.Bytes()[2:]...)
}

// manualPDF returns a PDF with one page for each text in manual.
func manualPDF() []byte {
	pages := make([]pdf.Page, len(manual))
	for i, text := range manual {
		pages[i].Paragraphs = []string{text}
	}
	return pdf.Write(pages...)
}

func needsSandbox(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("NOT TESTED: attachments: there is no bwrap on this machine (install the package bubblewrap)")
	}
}

// The offline model describes an attached image. It answers a question about an attached document
// with citations of the document's pages.
func TestTheOfflineModelReadsAttachments(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	r := newTestEnvFor(t, config.Workers{}, workers.RoleAgent, workers.RoleTool)
	agent := r.agent("offline")
	run := r.result(r.send(agent, "What do you see?", sentFile{"photo.jpg", "image/jpeg", photo(t, 640, 480)}))
	if run.Status != domain.RunCompleted || !strings.Contains(*run.Message, "photo.jpg: image/jpeg, 640 × 480 pixels") ||
		len(run.Attachments) != 1 || run.Attachments[0].Name != "photo.jpg" {
		t.Fatalf("%+v, %+v", run, run.Error)
	}

	run = r.result(r.send(agent, asksForLadders, sentFile{"log.pdf", "application/pdf", manualPDF()}))
	if run.Status != domain.RunCompleted || len(run.Citations) == 0 || run.Citations[0].Page == nil || *run.Citations[0].Page != 7 ||
		run.Citations[0].Title != "log.pdf" || run.Citations[0].SourceID == nil || !strings.Contains(run.Citations[0].CitedText, "every 90 days") {
		t.Fatalf("%+v, %+v", run, run.Error)
	}
	source, err := r.store.Blobs.SourceByID(t.Context(), r.org, *run.Citations[0].SourceID)
	if err != nil || !strings.Contains(source.Text, "[page 7]") || source.Title != "" {
		t.Errorf("%+v, %v", source, err)
	}

	// A document is also available to later messages of its session.
	run = r.result(r.start(agent, "s", "By the document, how often are ladders inspected?"))
	if run.Status != domain.RunCompleted || len(run.Citations) == 0 || *run.Citations[0].Page != 7 || len(run.Attachments) != 0 {
		t.Errorf("%+v, %+v", run, run.Error)
	}

	// A message with files needs no text.
	run = r.result(r.send(agent, "", sentFile{"photo.jpg", "image/jpeg", photo(t, 64, 48)}))
	if run.Status != domain.RunCompleted || !strings.Contains(*run.Message, "photo.jpg: image/jpeg, 64 × 48 pixels") || strings.Contains(*run.Message, "“”") {
		t.Errorf("%+v, %+v, %s", run, run.Error, *run.Message)
	}
	run = r.result(r.send(agent, "", sentFile{"log.pdf", "application/pdf", manualPDF()}))
	if run.Status != domain.RunCompleted || !strings.Contains(*run.Message, "log.pdf: application/pdf") || len(run.Citations) == 0 {
		t.Errorf("%+v, %+v, %s", run, run.Error, *run.Message)
	}

	run = r.result(r.send(agent, "And this?", sentFile{"broken.pdf", "application/pdf", []byte("%PDF-1.7 and no more")}))
	if run.Status != domain.RunFailed || run.Error.Code != "attachment_unreadable" || !strings.Contains(run.Error.Message, `"broken.pdf"`) || len(run.Attachments) != 1 {
		t.Errorf("%+v, %+v", run, run.Error)
	}
}

// If several runs have attached files with the same text, the text is stored once, without a file
// name. The citations of each run contain the name of the run's own file.
func TestEqualTextsHaveTheNamesOfTheirRuns(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	r := newTestEnvFor(t, config.Workers{}, workers.RoleAgent, workers.RoleTool)
	agent := r.agent("offline")
	sourceID := ""
	for _, c := range []struct{ principal, session, name, foreign string }{
		{"usr_owner", "s-1", "layoffs.pdf", "manual.pdf"},
		{"visitor", "s-2", "manual.pdf", "layoffs.pdf"},
		{"visitor", "s-3", "copy.pdf", "manual.pdf"},
	} {
		run := r.result(r.sendAs(c.principal, c.session, agent, asksForLadders, sentFile{c.name, "application/pdf", manualPDF()}))
		if run.Status != domain.RunCompleted || len(run.Citations) == 0 || run.Citations[0].SourceID == nil {
			t.Fatalf("%s: %+v, %+v", c.name, run, run.Error)
		}
		for _, cited := range run.Citations {
			if cited.Title != c.name {
				t.Errorf("%s is cited as %q", c.name, cited.Title)
			}
		}

		stored, err := r.store.Runs.RunByID(t.Context(), r.org, c.principal, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		body, err := stored.Body()
		if err != nil || !strings.Contains(string(body), c.name) || strings.Contains(string(body), c.foreign) {
			t.Errorf("%s: the stored run is %s, %v", c.name, body, err)
		}

		source, err := r.store.Blobs.SourceByID(t.Context(), r.org, *run.Citations[0].SourceID)
		if err != nil || source.Title != "" || sourceID != "" && source.ID != sourceID {
			t.Errorf("%s: the text is %+v, %v", c.name, source, err)
		}
		sourceID = source.ID
	}
}

// A program finds the attachments of its run in its working folder. Images are in their converted
// form.
func TestProgramsGetAttachments(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	r := newTestEnvFor(t, config.Workers{}, workers.RoleAgent, workers.RoleTool)
	agent := r.agentWith("offline", withCode())
	program := "```python\nprint(open('table.csv').read().upper(), b'secret' in open('photo.jpg', 'rb').read())\n```"
	run := r.result(r.send(agent, program, sentFile{"table.csv", "text/csv", []byte("a,b\n1,two\n")}, sentFile{"photo.jpg", "image/jpeg", photo(t, 20, 20)}))
	if run.Status != domain.RunCompleted || !strings.Contains(*run.Message, "1,TWO") || !strings.Contains(*run.Message, "False") {
		t.Errorf("%+v, %+v, %s", run, run.Error, *run.Message)
	}
	run = r.result(r.start(agent, "s", "```python\nimport os\nprint(os.listdir('.'))\n```"))
	if run.Status != domain.RunCompleted || strings.Contains(*run.Message, "table.csv") {
		t.Errorf("%+v", run)
	}
}

// A model receives the converted images of its session, and never an uploaded original.
func TestModelsReceiveConvertedImages(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	var mu sync.Mutex
	var bodies [][]byte
	stub := openaistub.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		bodies = append(bodies, body)
		mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		stub.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	agent := r.agent("openai/test")
	sent := photo(t, 3000, 20)
	first := r.result(r.send(agent, "look", sentFile{"photo.jpg", "image/jpeg", sent}, sentFile{"notes.md", "text/markdown", []byte("# Notes\n\nThe lamp needs oil.\n")}))
	second := r.result(r.start(agent, "s", "and now?"))
	if first.Status != domain.RunCompleted || second.Status != domain.RunCompleted {
		t.Fatalf("%+v, %+v", first.Error, second.Error)
	}

	mu.Lock()
	defer mu.Unlock()
	for i, body := range bodies {
		image, text := firstImage(t, body)
		is, _, err := decodeConfig(image)
		if err != nil || is.Width != 1500 || bytes.Contains(image, []byte("secret")) {
			t.Errorf("call %d: %+v, %v", i, is, err)
		}
		if !strings.Contains(text, `"name":"photo.jpg"`) || !strings.Contains(text, "The lamp needs oil.") {
			t.Errorf("call %d: %s", i, text)
		}
	}
	if len(bodies) != 2 {
		t.Errorf("%d calls", len(bodies))
	}
}

// firstImage returns the first image in a request for chat completions, and the text of its
// message.
func firstImage(t *testing.T, body []byte) (content []byte, text string) {
	t.Helper()
	var asked struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	for _, m := range asked.Messages {
		var parts []struct {
			Type  string `json:"type"`
			Text  string `json:"text"`
			Image struct {
				URL string `json:"url"`
			} `json:"image_url"`
		}
		if m.Role != "user" || json.Unmarshal(m.Content, &parts) != nil || len(parts) != 2 || parts[1].Type != "image_url" {
			continue
		}
		data, ok := strings.CutPrefix(parts[1].Image.URL, "data:image/jpeg;base64,")
		content, err := base64.StdEncoding.DecodeString(data)
		if !ok || err != nil {
			t.Fatalf("%.60s, %v", parts[1].Image.URL, err)
		}
		return content, parts[0].Text
	}
	t.Fatalf("no image in %.2000s", body)
	return nil, ""
}

func decodeConfig(content []byte) (image.Config, string, error) {
	return image.DecodeConfig(bytes.NewReader(content))
}
