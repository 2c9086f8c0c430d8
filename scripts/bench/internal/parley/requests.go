package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"

	"parley/scripts/internal/realtimeclient"
)

// Request is what a client sends: Path with its query, Body as JSON or nil.
type Request struct {
	Method, Path string
	Headers      map[string]string
	Body         []byte
}

// Address is where the ingress listens, as host:port.
func (p *Parley) Address() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Automation triggers a run of the agent and waits for it.
func (p *Parley) Automation(message, key string) Request {
	headers := map[string]string{"x-trigger-type": "schedule", "x-automation-id": "bench"}
	return p.request(http.MethodPost, "/api/internal/run-automation", headers,
		map[string]any{"target": p.agent, "input": map[string]string{"message": message}, "idempotencyKey": key})
}

// Chat says something to the agent and waits for the answer.
func (p *Parley) Chat(session, message string) Request {
	return p.request(http.MethodPost, "/api/agents?action=chat&id="+p.agent, nil, map[string]any{"sessionId": session, "message": message})
}

// ChatAsync is Chat without the wait.
func (p *Parley) ChatAsync(session, message string) Request {
	r := p.Chat(session, message)
	r.Headers["Prefer"] = "respond-async"
	return r
}

// ChatStream is Chat with the run's events as the answer.
func (p *Parley) ChatStream(session, message string) Request {
	return p.request(http.MethodPost, "/api/agents?action=chat&id="+p.agent, nil,
		map[string]any{"sessionId": session, "message": message, "stream": true})
}

// Events asks for a run's events.
func (p *Parley) Events(runID string) Request {
	return p.request(http.MethodGet, "/api/runs?stream=1&id="+url.QueryEscape(runID), nil, nil)
}

// Upload sends a document.
func (p *Parley) Upload(name string, content []byte) (Request, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err != nil {
		return Request{}, fmt.Errorf("making form: %w", err)
	}
	_, err = part.Write(content)
	if err := errors.Join(err, form.Close()); err != nil {
		return Request{}, fmt.Errorf("making form: %w", err)
	}
	r := p.request(http.MethodPost, "/api/knowledge", map[string]string{"Content-Type": form.FormDataContentType()}, nil)
	r.Body = body.Bytes()
	return r, nil
}

// Document asks how far a document is.
func (p *Parley) Document(id string) Request {
	return p.request(http.MethodGet, "/api/knowledge?id="+url.QueryEscape(id), nil, nil)
}

// Search asks for passages of documents.
func (p *Parley) Search(query string) Request {
	return p.request(http.MethodGet, "/api/knowledge?limit=10&query="+url.QueryEscape(query), nil, nil)
}

// Realtime is a conversation with the agent by voice.
func (p *Parley) Realtime() realtimeclient.Options {
	return realtimeclient.Options{BaseURL: p.base, Key: p.key, Model: p.agent}
}

// Ask sends a request and reads its answer, which must be 2xx.
func (p *Parley) Ask(ctx context.Context, client *http.Client, r Request, into any) error {
	req, err := http.NewRequestWithContext(ctx, r.Method, p.base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return fmt.Errorf("making request %s: %w", r.Path, err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json") // unless the request says another
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", r.Path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading answer of %s: %w", r.Path, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("asking %s: %s: %s", r.Path, res.Status, bytes.TrimSpace(raw))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading answer of %s: %w", r.Path, err)
	}
	return nil
}

// request is one with the organization's key.
func (p *Parley) request(method, path string, headers map[string]string, body any) Request {
	r := Request{Method: method, Path: path, Headers: map[string]string{"x-api-key": p.key}}
	maps.Copy(r.Headers, headers)
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			panic(err) // maps of texts and booleans
		}
		r.Body = raw
	}
	return r
}
