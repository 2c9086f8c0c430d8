package abuse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"time"

	"parley/shared/lifecycle"
)

// documentWithin is the time within which the victim's document must be ready.
const documentWithin = 20 * time.Second

// upload uploads a document as a form and returns the document's ID. The ID is empty if the service
// did not accept the document.
func (p *person) upload(ctx context.Context, name, content string) (a answer, id string) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return answer{err: err}, ""
	}

	by := p.byKey()
	by["Content-Type"] = form.FormDataContentType()
	a = p.post(ctx, "/api/knowledge", by, body.Bytes())
	var made struct {
		ID string `json:"id"`
	}
	if a.ok(http.StatusAccepted) != nil || json.Unmarshal(a.body, &made) != nil {
		return a, ""
	}
	return a, made.ID
}

// status returns a document's status.
func (p *person) status(ctx context.Context, id string) (string, error) {
	a := p.get(ctx, "/api/knowledge?id="+id, p.bearer())
	if err := a.ok(http.StatusOK); err != nil {
		return "", err
	}
	var d struct {
		Status string `json:"status"`
	}
	err := json.Unmarshal(a.body, &d)
	return d.Status, err
}

// ready uploads a document and waits until it is ready.
func (p *person) ready(ctx context.Context, name, content string) error {
	a, id := p.upload(ctx, name, content)
	if err := a.ok(http.StatusAccepted); err != nil {
		return err
	}

	began, pause := time.Now(), documentPoll
	for ; time.Since(began) < documentWithin; pause = min(pause+documentPoll, time.Second) {
		_ = lifecycle.Sleep(ctx, pause)
		switch status, err := p.status(ctx, id); {
		case err != nil:
			return err
		case status == "ready":
			return nil
		case status == "failed":
			return fmt.Errorf("document %s failed", id)
		}
	}
	return fmt.Errorf("document %s was not ready within %s", id, documentWithin)
}

const (
	// documentPoll is the delay before a document's status is first requested. Later requests are
	// less frequent, because the service limits the number of requests.
	documentPoll = 40 * time.Millisecond
	// documentAllowance is the allowed increase of a document's latency. A victim requests the
	// status after 40, 120, 240 and 400 ms, so one additional request adds up to 160 ms.
	documentAllowance = 160 * time.Millisecond
)
