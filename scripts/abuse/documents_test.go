package abuse

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/lifecycle"
)

// documentWithin is the time within which the victim's document must be ready.
const documentWithin = 20 * time.Second

// upload uploads a document as a form and returns the document's ID. The ID is empty if the service
// did not accept the document.
func (p *person) upload(ctx context.Context, name, content string) (a api.Answer, id string) {
	by := p.byKey()
	body, contentType := api.Form(name, []byte(content), nil)
	by["Content-Type"] = contentType
	a = p.post(ctx, "/api/knowledge", by, body)
	var made struct {
		ID string `json:"id"`
	}
	if a.Check(http.StatusAccepted) != nil || json.Unmarshal(a.Body, &made) != nil {
		return a, ""
	}
	return a, made.ID
}

// status returns a document's status.
func (p *person) status(ctx context.Context, id string) (string, error) {
	a := p.get(ctx, "/api/knowledge?id="+id, p.bearer())
	if err := a.Check(http.StatusOK); err != nil {
		return "", err
	}
	var d struct {
		Status string `json:"status"`
	}
	err := json.Unmarshal(a.Body, &d)
	return d.Status, err
}

// ready uploads a document and waits until it is ready.
func (p *person) ready(ctx context.Context, name, content string) error {
	a, id := p.upload(ctx, name, content)
	if err := a.Check(http.StatusAccepted); err != nil {
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
