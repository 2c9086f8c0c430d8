package workers_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
	"parley/shared/testkit/pdf"
	"parley/workers"
)

// sendDocument uploads a document and waits until it is processed.
func (r *testEnv) sendDocument(name string, content []byte) domain.Document {
	r.Helper()
	upload, err := r.store.Blobs.Upload(r.Context(), r.org, bytes.NewReader(content), 20<<20)
	if err != nil {
		r.Fatal(err)
	}
	sent, err := r.store.Knowledge.AddDocuments(r.Context(), r.org, []knowledgedb.NewDocument{{
		ID: id.New(id.Document), Name: name, MIMEType: "application/octet-stream", Content: &upload, CreatedBy: "usr_a",
	}}, knowledgedb.DocumentLimits{})
	if err != nil {
		r.Fatal(err)
	}
	r.bus.PublishJobs(*sent[0].Job)
	return sent[0].Document
}

// processed waits until a document is ready or has failed, and returns the document.
func (r *testEnv) processed(documentID string) domain.Document {
	r.Helper()
	over := time.After(testkit.Within(time.Minute))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := r.store.Knowledge.DocumentByID(r.Context(), r.org, documentID)
		if err != nil {
			r.Fatal(err)
		}
		if d.Status == domain.DocumentReady || d.Status == domain.DocumentFailed {
			return d
		}
		select {
		case <-tick.C:
		case <-over:
			r.Fatalf("%+v", d)
		}
	}
}

// book returns a PDF with n pages. Each page contains different words.
func book(n int) []byte {
	pages := make([]pdf.Page, n)
	for p := range pages {
		pages[p].Heading = fmt.Sprintf("Chapter %d", p+1)
		for s := range 8 {
			pages[p].Paragraphs = append(pages[p].Paragraphs, fmt.Sprintf(
				"The keeper of lighthouse number %d wrote down on day %d what the weather had been like, which ships had passed, and how much oil was left in the store for the nights to come.", p+1, s))
		}
	}
	return pdf.Write(pages...)
}

// Documents in real formats are processed in the configured sandbox.
func TestDocumentsAreProcessed(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{}, workers.RoleIngest)
	markdown := r.sendDocument("care.md", []byte("# Care\n\nBrass is rubbed with a dry cloth.\n\n## Bulbs\n\nThe Heron takes an E14 bulb.\n"))
	nothing := r.sendDocument("nothing.bin", []byte{0, 1, 2, 3, 0xfe, 0xff, 0, 0})
	paged := r.sendDocument("log.pdf", book(12))
	if d := r.processed(markdown.ID); d.Status != domain.DocumentReady || d.Chunks == 0 || d.Pages != nil || d.MIMEType != "text/markdown" {
		t.Errorf("%+v, %+v", d, d.Error)
	}
	if d := r.processed(nothing.ID); d.Status != domain.DocumentFailed || d.Error.Code != "unsupported_format" {
		t.Errorf("%+v, %+v", d, d.Error)
	}
	if d := r.processed(paged.ID); d.Status != domain.DocumentReady || d.Pages == nil || *d.Pages != 12 || d.Done != 12 || d.Language != "en" {
		t.Errorf("%+v, %+v", d, d.Error)
	}
	seventh, err := r.store.Knowledge.DocumentPassages(t.Context(), r.org, paged.ID, 7, 100)
	if err != nil || len(seventh) == 0 || *seventh[0].Page != 7 || !strings.Contains(seventh[0].Text, "lighthouse number 7 ") {
		t.Errorf("%+v, %v", seventh, err)
	}
}
