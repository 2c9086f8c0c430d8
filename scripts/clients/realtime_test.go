package clients

import (
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/scripts/internal/realtimeclient"
	"parley/shared/testkit/openaistub"
)

// sentences contains the texts that espeak-ng speaks. They are so short that pocketsphinx
// recognizes every word, both alone and after the word "echo" in an answer.
var sentences = map[string]string{
	"first":  "please tell me about the weather in london",
	"second": "it is going to rain tomorrow",
	"answer": "she went to the market to buy some bread",
}

// needsSpeech skips a test if the programs for speech synthesis and recognition are missing.
func needsSpeech(t *testing.T) {
	t.Helper()
	for _, program := range []string{"espeak-ng", "pocketsphinx_continuous"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: voice, because %s is missing (scripts/setup test installs it): %v", program, err)
		}
	}
}

// secure starts a TLS proxy in front of the service, because clients of the Realtime API accept
// only wss URLs. It returns the URL of the proxy and, as ca, the path of its certificate.
func (s *testEnv) secure(t *testing.T) (address, ca string) {
	t.Helper()
	target, err := url.Parse(s.parley.BaseURL)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})

	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, ca
}

// spoken synthesizes the sentences and writes them to files. It returns each sentence's text and
// file, as the script expects them.
func spoken(t *testing.T) map[string]map[string]string {
	t.Helper()
	dir, said := t.TempDir(), map[string]map[string]string{}
	for name, text := range sentences {
		pcm, err := realtimeclient.Speech(t.Context(), "en-us+f5", text)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".pcm")
		if err := os.WriteFile(file, pcm, 0o600); err != nil {
			t.Fatal(err)
		}
		said[name] = map[string]string{"text": text, "file": file}
	}
	return said
}

// says makes the stub model answer a message "say: TEXT" with TEXT instead of an echo.
func says(req openaistub.Request) (openaistub.Reply, bool) {
	text, ok := strings.CutPrefix(req.Prompt(), "say: ")
	return openaistub.Reply{Text: text}, ok
}

// TestRealtime talks to agents with OpenAI's two Realtime clients: one uses the package `ws`, the
// other the browser's WebSocket. With -short, each spoken part runs with only one of them.
func TestRealtime(t *testing.T) {
	t.Parallel()
	needsNode(t)
	needsSpeech(t)
	s := withTestEnv(t)
	s.model.Respond(says)
	voice := map[string]any{"voice": map[string]any{"enabled": true}}
	address, ca := s.secure(t)
	short, understood := "", 8
	if testing.Short() {
		short, understood = "1", 4
	}

	printed := s.node(t, "realtime.mjs", "SHORT="+short,
		"TLS_URL="+address, "NODE_EXTRA_CA_CERTS="+ca, "SPEECH="+string(encoded(t, spoken(t))),
		"ECHO_ID="+s.agent(t, map[string]any{"model": "offline/echo", "tools": voice}),
		"SAYS_ID="+s.agent(t, map[string]any{"model": "openai/stub", "tools": voice}),
		"MUTE_ID="+s.agent(t, map[string]any{"model": "offline/echo"}))

	var got struct {
		Understood, Types []string
		Heard             string
		Parts             int
	}

	decode(t, []byte(printed), &got)
	t.Logf("understood: %q; played before the interruption: %q", got.Understood, got.Heard)
	if got.Parts < 7 || len(got.Understood) != understood {
		t.Errorf("%+v", got)
	}

	known := realtimeTypes(t, filepath.Join(s.dir, "npm", "node_modules", "openai", "resources", "realtime", "realtime.d.ts"))
	for _, kind := range got.Types {
		if !slices.Contains(known, kind) {
			t.Errorf("the client has no type for the event %q", kind)
		}
	}

	if problems := s.parley.Complaints(); strings.Contains(problems, "panic") {
		t.Error(problems)
	}
}

// realtimeTypes returns the event types that the TypeScript declarations of OpenAI's client
// contain.
func realtimeTypes(t *testing.T, path string) []string {
	t.Helper()
	declarations, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	var types []string
	for _, found := range regexp.MustCompile(`(?m)^ +type: '([a-z_.]+)';`).FindAllStringSubmatch(string(declarations), -1) {
		types = append(types, found[1])
	}

	if len(types) < 40 {
		t.Fatalf("found only %d types in %s", len(types), path)
	}
	return types
}
