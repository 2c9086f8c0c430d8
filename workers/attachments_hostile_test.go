package workers_test

import (
	"archive/zip"
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/workers"
	"parley/workers/internal/parse/pdf/pdftest"
)

const wordType = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

// word returns a Word document. prolog precedes the root element of the document's main part, and
// parts are further parts of the archive, by name.
func word(t *testing.T, prolog, text string, parts map[string]string) []byte {
	t.Helper()
	const xml = `<?xml version="1.0"?>`
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, content string) {
		part, err := z.Create(name)
		if err == nil {
			_, err = part.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("[Content_Types].xml", xml+`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" `+
		`ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="`+wordType+`.main+xml"/></Types>`)
	add("_rels/.rels", xml+`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" `+
		`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`)
	add("word/document.xml", xml+prolog+`<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>`+
		text+`</w:t></w:r></w:p></w:body></w:document>`)
	for name, content := range parts {
		add(name, content)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostileFiles returns files that a worker must reject, and Word documents of which a worker may
// read only the main part.
func hostileFiles(t *testing.T) (unreadable, readable map[string]sentFile) {
	t.Helper()
	var large bytes.Buffer
	if err := png.Encode(&large, image.NewGray(image.Rect(0, 0, 5000, 5001))); err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("\x00", 12<<20)
	bomb := word(t, "", "Words", map[string]string{"word/media/1.xml": zeros, "word/media/2.xml": zeros})
	passwords := `<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>`
	pdfs := pdftest.Hostile()
	unreadable = map[string]sentFile{
		"only its head":                 {"a.pdf", "application/pdf", pdfs["only its head"]},
		"a million null pages":          {"b.pdf", "application/pdf", pdfs["a million null pages"]},
		"a page tree that has no end":   {"c.pdf", "application/pdf", pdfs["a page tree that is its own child"]},
		"an archive that is a document": {"d.docx", wordType, []byte("PK\x03\x04 and so on")},
		"too many pixels":               {"e.png", "image/png", large.Bytes()},
		"an SVG as an image":            {"f.png", "image/png", []byte("<svg onload='x'/>")},
		"half an image":                 {"g.jpg", "image/jpeg", photo(t, 300, 300)[:400]},
		"a decompression bomb":          {"h.docx", wordType, bomb},
		"half an archive":               {"i.docx", wordType, bomb[:300]},
		"an external entity":            {"j.docx", wordType, word(t, passwords, "Words &x;", nil)},
	}
	readable = map[string]sentFile{
		"parts outside of the archive": {"k.docx", wordType, word(t, "", "Words", map[string]string{
			"../../../etc/cron.d/x": "evil", "/etc/passwd": "evil", `..\x`: "evil",
		})},
		"an archive in the archive": {"l.docx", wordType, word(t, "", "Words", map[string]string{"word/embeddings/a.zip": string(bomb)})},
	}
	return unreadable, readable
}

// A hostile file makes only its own run fail, with a reason. A run with a harmless file succeeds at
// the same time.
func TestHostileAttachments(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	r := newTestEnvFor(t, config.Workers{}, workers.RoleAgent, workers.RoleTool)
	agent := r.agent("offline")
	unreadable, readable := hostileFiles(t)
	bad, good := map[string]string{}, map[string]string{}
	for name, file := range unreadable {
		bad[name] = r.sendIn(name, agent, "look", file)
	}
	for name, file := range readable {
		good[name] = r.sendIn(name, agent, "Which words?", file)
	}
	honest := r.result(r.send(agent, asksForLadders, sentFile{"log.pdf", "application/pdf", manualPDF()}))
	if honest.Status != domain.RunCompleted || len(honest.Citations) == 0 {
		t.Errorf("beside hostile files: %+v, %+v", honest, honest.Error)
	}
	for name, runID := range bad {
		run := r.result(runID)
		if run.Status != domain.RunFailed || run.Error.Code != "attachment_unreadable" || !strings.Contains(run.Error.Message, unreadable[name].name) {
			t.Errorf("%s: %s, %+v", name, run.Status, run.Error)
		}
		if run.Error != nil && strings.Contains(run.Error.Message, "root:") {
			t.Errorf("%s: %s", name, run.Error.Message)
		}
	}
	for name, runID := range good {
		run := r.result(runID)
		if run.Status != domain.RunCompleted || strings.Contains(*run.Message, "evil") || !strings.Contains(*run.Message, "Words") {
			t.Errorf("%s: %+v, %+v", name, run, run.Error)
		}
	}
}
