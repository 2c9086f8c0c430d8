package voice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"
)

// floor makes the calls of a turn with nothing around them: one behind the other, on connections that are kept.
type floor struct {
	client *http.Client
	url    string
	speech []byte
}

func newFloor(url string, speech []byte) *floor {
	return &floor{client: &http.Client{Transport: &http.Transport{}}, url: url, speech: speech}
}

func (f *floor) close() { f.client.CloseIdleConnections() }

// turn gives how long the calls take up to the first sound, without the providers' times.
func (f *floor) turn(ctx context.Context, at *providers) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at.restart()
	began := time.Now()
	if err := f.transcribe(ctx); err != nil {
		return 0, err
	}
	if err := f.chat(ctx); err != nil {
		return 0, err
	}
	sound, err := f.speak(ctx)
	if err != nil {
		return 0, err
	}
	all, _ := at.took(began)
	return sound.Sub(began) - all, nil
}

func (f *floor) transcribe(ctx context.Context) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "speech.wav")
	if err != nil {
		return fmt.Errorf("writing a form: %w", err)
	}
	_, _ = file.Write(f.speech) // to memory, as is the next
	_ = form.Close()
	_, err = f.call(ctx, "/audio/transcriptions", form.FormDataContentType(), &body)
	return err
}

func (f *floor) chat(ctx context.Context) error {
	_, err := f.post(ctx, "/chat/completions", map[string]any{
		"model": modelName, "stream": true, "messages": []any{map[string]string{"role": "user", "content": said}},
	})
	return err
}

// speak gives the time of the first sound.
func (f *floor) speak(ctx context.Context) (time.Time, error) {
	return f.post(ctx, "/audio/speech", map[string]string{"model": modelName, "voice": "alloy", "response_format": "pcm", "input": said})
}

func (f *floor) post(ctx context.Context, path string, body any) (first time.Time, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return first, fmt.Errorf("writing a request: %w", err)
	}
	return f.call(ctx, path, "application/json", bytes.NewReader(raw))
}

// call makes a call, reads all of the answer, and gives the time of its first bytes.
func (f *floor) call(ctx context.Context, path, media string, body io.Reader) (first time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+path, body)
	if err != nil {
		return first, fmt.Errorf("writing a request: %w", err)
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Authorization", "Bearer bench")
	res, err := f.client.Do(req)
	if err != nil {
		return first, fmt.Errorf("calling a provider: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return first, fmt.Errorf("a provider answers %s with %d", path, res.StatusCode)
	}
	if _, err = io.ReadFull(res.Body, make([]byte, 1)); err == nil {
		first = time.Now()
		_, err = io.Copy(io.Discard, res.Body)
	}
	if err != nil {
		return first, fmt.Errorf("reading a provider's answer: %w", err)
	}
	return first, nil
}
