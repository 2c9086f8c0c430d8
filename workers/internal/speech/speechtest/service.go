package speechtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/pcm"
)

// Key is the API key of a Service.
const Key = "audio-key-hunter2"

// Request is a request that a Service has received.
type Request struct {
	Path   string
	Fields map[string]string // fields of the request's JSON object or form
	Sound  []byte            // audio data in the WAV file
}

// Service is a stub of an OpenAI-compatible audio service. It synthesizes a hum for each text, and
// transcribes a hum back to the text.
type Service struct {
	URL string // including /v1
	// Answer, if not nil, is called for each request. If Answer returns false, the stub responds
	// itself. Answer must be set before the first request.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []Request
	hummed   map[[sha256.Size]byte]string
}

// NewService starts a Service, which stops at the end of the test.
func NewService(t *testing.T) *Service {
	t.Helper()
	s := &Service{hummed: map[[sha256.Size]byte]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.URL = server.URL + "/v1"
	return s
}

// Requests returns all requests that the service has received.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := readRequest(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "", err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	switch {
	case s.Answer != nil && s.Answer(w, r):
	case r.Header.Get("Authorization") != "Bearer "+Key:
		refuse(w, http.StatusUnauthorized, "", "Incorrect API key provided")
	case r.URL.Path == "/v1/audio/speech":
		s.hum(w, request.Fields)
	case r.URL.Path == "/v1/audio/transcriptions":
		s.listen(w, r, request.Sound)
	default:
		refuse(w, http.StatusNotFound, "", "Invalid URL")
	}
}

func readRequest(r *http.Request) (Request, error) {
	request := Request{Path: r.URL.Path, Fields: map[string]string{}}
	if r.Header.Get("Content-Type") == "application/json" {
		var fields map[string]any
		if err := json.NewDecoder(r.Body).Decode(&fields); err != nil {
			return request, fmt.Errorf("reading JSON: %w", err)
		}
		for name, value := range fields {
			request.Fields[name] = fmt.Sprint(value)
		}
		return request, nil
	}

	const limit = 26 << 20
	r.Body = http.MaxBytesReader(nil, r.Body, limit)
	if err := r.ParseMultipartForm(limit); err != nil { //nolint:gosec // the size is limited in the line above
		return request, fmt.Errorf("reading form: %w", err)
	}
	for name, values := range r.MultipartForm.Value {
		request.Fields[name] = strings.Join(values, "|")
	}
	file, head, err := r.FormFile("file")
	if err != nil {
		return request, fmt.Errorf("reading file: %w", err)
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return request, fmt.Errorf("reading file: %w", err)
	}

	wav := bytes.NewReader(raw)
	rate, err := pcm.ReadWAV(wav)
	if err != nil {
		return request, err
	}
	request.Sound = raw[len(raw)-wav.Len():]
	request.Fields["file"] = fmt.Sprintf("%s %s %d", head.Filename, head.Header.Get("Content-Type"), rate)
	return request, nil
}

func refuse(w http.ResponseWriter, status int, param, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","param":%q,"code":null}}`, message, param) //nolint:gosec // G705: JSON, read by tests
}

var serviceVoices = []string{
	"alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
}

const (
	humPerByte = speech.Rate / 14 // samples of hum per byte of text, which is about the pace of speech
	humPiece   = 4001             // bytes; an odd number, so that pieces do not consist of whole samples
)

// hum responds to audio/speech with a hum, and stores the text that belongs to the hum.
func (s *Service) hum(w http.ResponseWriter, fields map[string]string) {
	if !slices.Contains(serviceVoices, fields["voice"]) {
		refuse(w, http.StatusBadRequest, "voice", "Invalid value: not one of the supported values")
		return
	}
	if fields["response_format"] != "pcm" || fields["input"] == "" {
		refuse(w, http.StatusBadRequest, "response_format", "unexpected request")
		return
	}

	speed := 1.0
	if text, set := fields["speed"]; set {
		_, _ = fmt.Sscan(text, &speed)
	}
	samples := int(float64(len(fields["input"])*humPerByte) / speed)
	sound := make([]byte, 0, 2*samples)
	for n := range samples {
		sound = binary.LittleEndian.AppendUint16(sound, uint16(int16(9000*math.Sin(float64(n)/20))))
	}
	s.mu.Lock()
	s.hummed[sha256.Sum256(sound)] = fields["input"]
	s.mu.Unlock()

	w.Header().Set("Content-Type", "audio/pcm")
	for len(sound) > 0 {
		n := min(humPiece, len(sound))
		if _, err := w.Write(sound[:n]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		sound = sound[n:]
	}
}

// listen transcribes a hum. For long audio, listen does not respond: it waits until the caller
// cancels the request.
func (s *Service) listen(w http.ResponseWriter, r *http.Request, sound []byte) {
	if len(sound) > 20*speech.BytesPerSecond {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	text := s.hummed[sha256.Sum256(sound)]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"text":%q,"usage":{"type":"duration","seconds":1}}`, text)
}
