package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	yaml "github.com/oasdiff/yaml3"

	"parley/scripts/internal/api"
	"parley/scripts/internal/fenced"
)

// structure is the content of a YAML block in a document: the configuration of a program that calls
// Parley. The tests execute the block as the program would.
type structure struct {
	Jobs map[string]struct { // of GitHub Actions
		Env   map[string]string
		Steps []struct {
			Uses, Run string
			Env       map[string]string
		}
	}
	Kind string // of Kubernetes
	Spec struct {
		JobTemplate struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []container }
				}
			}
		} `yaml:"jobTemplate"`
	}
	Endpoints struct { // of LibreChat
		Custom []struct {
			BaseURL string `yaml:"baseURL"`
			APIKey  string `yaml:"apiKey"`
		}
	}
	Services map[string]struct{ Environment map[string]string } // the services, if the block is a Compose file for Open WebUI
}

// container is a container in a pod.
type container struct {
	Command, Args []string
	Env           []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
}

// yaml runs a block as the workflow, CronJob or client configuration that it contains. It fails the
// test if the block contains none of them.
func (r *reader) yaml(t *testing.T, b fenced.Block) {
	t.Helper()
	var s structure
	if err := yaml.Unmarshal([]byte(r.text(b)), &s); err != nil {
		t.Fatalf("%s: %v", b, err)
	}

	done := r.workflow(t, b, s) + r.cronJob(t, b, s)
	for _, endpoint := range s.Endpoints.Custom {
		r.asOpenAIClient(t, b, endpoint.BaseURL, endpoint.APIKey)
		done++
	}

	for _, service := range s.Services {
		if base := service.Environment["OPENAI_API_BASE_URL"]; base != "" {
			r.asOpenAIClient(t, b, base, service.Environment["OPENAI_API_KEY"])
			done++
		}
	}

	if done == 0 {
		t.Errorf("%s: no part of the block was run; the test may not know the block's structure", b)
	}
}

// workflow runs the steps of a GitHub Actions workflow as GitHub's runner does.
func (r *reader) workflow(t *testing.T, b fenced.Block, s structure) (done int) {
	t.Helper()
	for _, job := range s.Jobs {
		for _, step := range job.Steps {
			if step.Run == "" {
				continue // a third-party action
			}
			var set strings.Builder
			for _, env := range []map[string]string{job.Env, step.Env} {
				for name, value := range env {
					set.WriteString("export " + name + "=" + quoted(r.expressions(t, b, value)) + "\n")
				}
			}
			r.ran += step.Run
			r.run(t, b.String(), "bash", "-e", "-o", "pipefail", "-c", set.String()+r.expressions(t, b, step.Run))
			done++
		}
	}
	return done
}

var expression = regexp.MustCompile(`\$\{\{\s*([\w.]+)\s*\}\}`)

// expressions replaces the expressions of GitHub Actions in a text. Secrets and variables have the
// values of the reader's environment.
func (r *reader) expressions(t *testing.T, b fenced.Block, text string) string {
	t.Helper()
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		_, last, _ := strings.Cut(name, ".")
		switch {
		case strings.HasPrefix(name, "secrets."), strings.HasPrefix(name, "vars."):
			return r.variable(t, b, last)
		case name == "github.run_id":
			return strings.ReplaceAll(t.Name(), "/", "-")
		}
		t.Fatalf("%s: the test does not support the expression %s", b, name)
		return ""
	})
}

// cronJob runs the command of each container of a Kubernetes CronJob, and returns the number of
// containers.
func (r *reader) cronJob(t *testing.T, b fenced.Block, s structure) (done int) {
	t.Helper()
	if s.Kind != "CronJob" {
		return 0
	}

	for _, c := range s.Spec.JobTemplate.Spec.Template.Spec.Containers {
		args := []string{"-i", "PATH=" + os.Getenv("PATH")}
		for _, e := range c.Env {
			if key := e.ValueFrom.SecretKeyRef.Key; key != "" {
				e.Value = r.variable(t, b, key)
			}
			if e.Name == "AGENT_ID" { // replaces the placeholder for the user's agent
				e.Value = r.variable(t, b, e.Name)
			}
			args = append(args, e.Name+"="+e.Value)
		}
		r.run(t, b.String(), "env", append(append(args, c.Command...), c.Args...)...)
		done++
	}
	return done
}

// variable returns the value of a variable in the reader's environment. It fails the test if there
// is none.
func (r *reader) variable(t *testing.T, b fenced.Block, name string) string {
	t.Helper()
	value, known := "", false
	for _, setting := range r.env {
		if set, is, _ := strings.Cut(setting, "="); set == name {
			value, known = is, true
		}
	}
	if !known {
		t.Fatalf("%s: the reader has no variable %s", b, name)
	}
	return value
}

var reference = regexp.MustCompile(`\$\{(\w+)\}`)

// variables replaces references to environment variables in a text with the reader's values.
func (r *reader) variables(t *testing.T, b fenced.Block, text string) string {
	t.Helper()
	return reference.ReplaceAllStringFunc(text, func(found string) string { return r.variable(t, b, found[2:len(found)-1]) })
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// dotenv checks a block that sets the environment variables of an OpenAI client.
func (r *reader) dotenv(t *testing.T, b fenced.Block) {
	t.Helper()
	set := map[string]string{}
	for line := range strings.Lines(r.text(b)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(name, "#") {
			set[name] = value
		}
	}
	base := set["OPENAI_API_BASE_URL"] + set["OPENAI_BASE_URL"]
	r.asOpenAIClient(t, b, base, set["OPENAI_API_KEY"])
}

// asOpenAIClient acts like a program that is configured with the given URL and key. It lists the
// models, and calls the first model in the list.
func (r *reader) asOpenAIClient(t *testing.T, b fenced.Block, base, key string) {
	t.Helper()
	base, key = r.variables(t, b, base), r.variables(t, b, key)
	var models struct{ Data []struct{ ID string } }
	decode(t, r.asked(t, b, http.MethodGet, base+"/models", key, nil), &models)
	agent := r.variable(t, b, "AGENT_ID")
	found := false
	for _, m := range models.Data {
		found = found || m.ID == agent
	}

	if !found {
		t.Errorf("%s: the demo agent is not among the models", b)
	}

	answer := r.asked(t, b, http.MethodPost, base+"/chat/completions", key, map[string]any{
		"model": agent, "stream": true, "temperature": 0.7, "messages": []any{map[string]any{"role": "user", "content": "What is 6 * 7?"}},
	})
	if !bytes.Contains(answer, []byte("42")) || !bytes.HasSuffix(bytes.TrimSpace(answer), []byte("data: [DONE]")) {
		t.Errorf("%s: answer = %.2000s", b, answer)
	}
}

// asked sends a request. It must succeed.
func (r *reader) asked(t *testing.T, b fenced.Block, method, url, key string, body any) []byte {
	t.Helper()
	got := api.Send(t.Context(), method, url, map[string]string{"Authorization": "Bearer " + key}, body)
	if got.Err != nil || got.Status >= http.StatusMultipleChoices {
		t.Fatalf("%s: %s %s: %d %s %v", b, method, url, got.Status, got.Body, got.Err)
	}
	return got.Body
}

// node is a node in an n8n workflow.
type node struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Parameters struct {
		Method           string `json:"method"`
		URL              string `json:"url"`
		HeaderParameters struct {
			Parameters []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"parameters"`
		} `json:"headerParameters"`
		JSONBody string `json:"jsonBody"`
	} `json:"parameters"`
}

// inBraces matches n8n's expressions.
var inBraces = regexp.MustCompile(`\{\{\s*(\$env\.(\w+)|\$execution\.id)\s*\}\}`)

// node sends the request of an n8n node.
func (r *reader) node(t *testing.T, b fenced.Block, n node) {
	t.Helper()
	if n.Type != "n8n-nodes-base.httpRequest" {
		return
	}

	fill := func(text string) string {
		text = inBraces.ReplaceAllStringFunc(strings.TrimPrefix(text, "="), func(found string) string {
			if name := inBraces.FindStringSubmatch(found)[2]; name != "" {
				return r.variable(t, b, name)
			}
			return "1"
		})
		if strings.Contains(text, "{{") {
			t.Errorf("%s: the test does not support an expression in %s", b, text)
		}
		return text
	}

	body := fill(n.Parameters.JSONBody)
	if !json.Valid([]byte(body)) {
		t.Fatalf("%s: the body of %s is not JSON: %s", b, n.Name, body)
	}

	req, err := http.NewRequestWithContext(t.Context(), n.Parameters.Method, fill(n.Parameters.URL), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	for _, header := range n.Parameters.HeaderParameters.Parameters {
		req.Header.Set(header.Name, fill(header.Value))
	}

	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(raw, []byte(`"status":"completed"`)) {
		t.Errorf("%s: %s: %d %s %v", b, n.Name, res.StatusCode, raw, err)
	}
}

// server is an MCP server in an assistant's settings.
type server struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Args    []string          `json:"args"` // arguments of a program that connects to the server
}

// server connects to the MCP server as the assistant would, with the reader's key in place of the
// document's.
func (r *reader) server(t *testing.T, b fenced.Block, s server) {
	t.Helper()
	url := s.URL
	if url == "" {
		for _, arg := range s.Args {
			if strings.HasPrefix(arg, "http://") {
				url = arg
			}
		}
		t.Logf("NOT TESTED: the program named in %s, because it would have to be downloaded; only the URL is tested", b)
		s.Headers = map[string]string{"x-api-key": r.variable(t, b, "PARLEY_API_KEY")}
	}

	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"reader","version":"1"}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range s.Headers {
		req.Header.Set(name, strings.NewReplacer("ak_…", r.variable(t, b, "PARLEY_API_KEY"), "ak_...", r.variable(t, b, "PARLEY_API_KEY")).Replace(value))
	}

	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if raw, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(raw, []byte("serverInfo")) {
		t.Errorf("%s: %d %s %v", b, res.StatusCode, raw, err)
	}
}
