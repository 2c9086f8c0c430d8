package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
	"parley/shared/store/pgserver"
	"parley/workers"
)

// healthy returns a machine on which all programs are installed except the named ones.
func healthy(without ...string) machine {
	return machine{
		program: func(name string) (string, error) {
			if slices.Contains(without, name) {
				return "", exec.ErrNotFound
			}
			return "/usr/bin/" + name, nil
		},
		postgres: func(context.Context) (pgserver.Binaries, error) {
			if slices.Contains(without, "postgres") {
				return pgserver.Binaries{}, pgserver.ErrNotInstalled
			}
			return pgserver.Binaries{Postgres: "/usr/lib/postgresql/15/bin/postgres", Version: "15.18", Major: 15}, nil
		},
		survey: func(workers.Config) []workers.Capability {
			return []workers.Capability{
				{Name: "model", State: "offline", Ok: true},
				{Name: "cgroups", State: "version 2", Ok: true},
				{Name: "sandbox", State: "bubblewrap   (Python 3.11.2)", Ok: true},
				{Name: "python", State: "3.11.2", Ok: true},
				{Name: "numpy", State: "1.24.2", Ok: true},
				{Name: "pandas", State: "1.5.3", Ok: true},
				{Name: "matplotlib", State: "3.6.3", Ok: !slices.Contains(without, "matplotlib")},
				{Name: "documents", State: "poppler 22.12, tesseract 5.3 (eng)", Ok: true},
				{Name: "poppler", State: "22.12", Ok: !slices.Contains(without, "pdftotext")},
				{Name: "tesseract", State: "5.3 (eng)", Ok: !slices.Contains(without, "tesseract")},
				{Name: "embeddings", State: "openai/text-embedding-3-small", Ok: !slices.Contains(without, "embeddings")},
				{Name: "voice", State: "espeak-ng, pocketsphinx", Ok: !slices.Contains(without, "espeak-ng")},
			}
		},
	}
}

func instead(m machine, list ...workers.Capability) machine {
	m.survey = func(workers.Config) []workers.Capability { return list }
	return m
}

// sound returns a Doctor that has the default settings.
func sound() Doctor {
	d := Doctor{}
	d.SandboxKind = config.SandboxBubblewrap
	d.Ingress = config.Ingress{
		Port: 8080, LimitDemo: 1, LimitUser: 2, LimitSystem: 3, DemoTokens: 1, StreamsPerCredential: 1,
		VoicePerOrganization: 1, VoiceMaxDuration: time.Minute,
		RunDeadline: 1e9, RetentionDefault: 24 * 3600 * 1e9, BacklogMax: 1,
	}
	return d
}

func TestDoctorReportsFoundAndMissing(t *testing.T) {
	t.Setenv("RUNSC", "")
	for name, c := range map[string]struct { //nolint:paralleltest // the variable RUNSC affects the whole process
		machine machine
		change  func(*Doctor)
		lines   []string // the table must contain each of these lines: state, name, part of the text
		wrong   string
	}{
		"everything": {healthy(), nil, []string{
			"ok|postgresql|15.18", "ok|nats|built in", "ok|model|offline; set OPENAI_API_KEY", "ok|search|wikipedia", "ok|bubblewrap|/usr/bin/bwrap",
			"ok|runsc|", "ok|cgroups|version 2", "ok|sandbox|(Python 3.11.2)", "ok|python|3.11.2", "ok|matplotlib|3.6.3", "ok|documents|poppler 22.12, tesseract", "ok|poppler|22.12", "ok|tesseract|5.3 (eng)",
			"off|embeddings|EMBEDDINGS_MODEL", "ok|voice|espeak-ng, pocketsphinx; set OPENAI_API_KEY for better speech", "ok|espeak|/usr/bin/espeak-ng", "ok|pocketsphinx|/usr/bin/pocketsphinx_batch",
		}, ""},
		"nothing": {
			instead(healthy("postgres", "bwrap", "runsc", "pdftotext", "tesseract", "espeak-ng", "pocketsphinx_batch"),
				workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "cgroups", State: "none are mounted"},
				workers.Capability{Name: "sandbox", State: "none: there is no program bwrap"},
				workers.Capability{Name: "documents", State: "none: no sandbox is available for reading documents"}),
			nil,
			[]string{
				"missing|postgresql|no PostgreSQL", "missing|bubblewrap|apt-get install", "off|runsc|needed for SANDBOX=gvisor", "off|cgroups|none are mounted",
				"missing|sandbox|unavailable: there is no program bwrap", "off|python|not checked", "off|numpy|not checked",
				"missing|documents|documents stay queued until they can be read: no sandbox is available", "missing|poppler|poppler-utils", "missing|tesseract|tesseract-ocr", "missing|voice|no speech program", "missing|espeak|apt-get install -y --no-install-recommends espeak-ng", "missing|pocketsphinx|pocketsphinx pocketsphinx-en-us",
			},
			"required but missing: postgresql",
		},
		"no poppler": {instead(healthy(), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "documents", State: "all except PDF: poppler is missing"}), nil, []string{
			"missing|documents|all except PDF", "missing|poppler|apt-get install",
		}, ""},
		"embeddings":    {healthy(), func(d *Doctor) { d.EmbeddingsModel = "openai/text-embedding-3-small" }, []string{"ok|embeddings|openai/text-embedding-3-small"}, ""},
		"no embeddings": {healthy("embeddings"), func(d *Doctor) { d.EmbeddingsModel = "openai/x" }, []string{"missing|embeddings|"}, "required but missing: embeddings"},
		"a package":     {healthy("matplotlib"), nil, []string{"missing|matplotlib|python3-matplotlib", "ok|numpy|1.24.2"}, ""},
		"other servers": {healthy("postgres"), func(d *Doctor) { d.DatabaseURL, d.NATSURL = "postgres://u:hunter2@db/x", "nats://u:hunter2@n" }, []string{
			"ok|postgresql|DATABASE_URL", "ok|nats|NATS_URL",
		}, ""},
		"gvisor": {healthy("runsc", "bwrap"), func(d *Doctor) { d.SandboxKind = config.SandboxGVisor }, []string{
			"missing|runsc|required by SANDBOX=gvisor", "off|bubblewrap|needed for SANDBOX=bubblewrap",
		}, ""},
		"off": {instead(healthy(), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "sandbox", State: "off"}), func(d *Doctor) { d.SandboxKind = config.SandboxOff }, []string{
			"off|sandbox|SANDBOX=bubblewrap", "off|python|not checked",
		}, ""},
		"notes": {instead(healthy(), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "note", State: "Files are watched.", Ok: true}), nil, []string{
			"off|note|Files are watched.",
		}, ""},
		"audio service": {instead(healthy("espeak-ng", "pocketsphinx_batch"), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "voice", State: "openai/gpt-4o-mini-tts, openai/gpt-4o-mini-transcribe", Ok: true}), func(d *Doctor) {
			d.AudioAPIKey, d.AudioBaseURL = "hunter2", "https://hunter2@x"
		}, []string{
			"ok|voice|openai/gpt-4o-mini-tts", "off|espeak|SPEECH_MODEL=offline/espeak-ng needs it: apt-get install", "off|pocketsphinx|TRANSCRIPTION_MODEL=",
		}, ""},
		"no voice": {instead(healthy(), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "voice", State: "off"}), func(d *Doctor) {
			d.TranscriptionModel, d.SpeechModel = "off", "off"
		}, []string{"off|voice|TRANSCRIPTION_MODEL and SPEECH_MODEL are off"}, ""},
		"half a voice": {instead(healthy(), workers.Capability{Name: "model", State: "offline", Ok: true}, workers.Capability{Name: "voice", State: "pocketsphinx is not installed (apt install x)"}), nil, []string{
			"missing|voice|pocketsphinx is not installed",
		}, ""},
		"keys": {healthy(), func(d *Doctor) {
			d.OpenAIAPIKey, d.OpenAIBaseURL, d.BraveAPIKey, d.AnthropicAPIKey = "hunter2", "https://hunter2@x", "hunter2", "hunter2"
		}, []string{"ok|model|set: OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY", "ok|search|brave; BRAVE_API_KEY"}, ""},
		"an unknown provider": {instead(healthy(), workers.Capability{Name: "model", State: "no provider nobody"}), nil, []string{"missing|model|no provider nobody"}, "required but missing: model"},
		"settings":            {instead(healthy(), workers.Capability{Name: "settings", State: "SANDBOX must be"}), nil, []string{"missing|settings|SANDBOX must be"}, "invalid settings: SANDBOX must be"},
		"settings of the ingress": {healthy(), func(d *Doctor) { d.Port, d.SecretsKey = -1, "hunter2" }, []string{
			"missing|settings|PORT", "missing|settings|SECRETS_KEY", "ok|postgresql|15.18",
		}, "invalid settings: PORT must be between 0 and 65535, not -1; SECRETS_KEY is invalid; create a key with openssl rand -base64 32: reading secrets key 1: "},
		"settings and more": {healthy("postgres"), func(d *Doctor) { d.Port = -1 }, []string{"missing|settings|PORT", "missing|postgresql|no PostgreSQL"}, "invalid settings: PORT must be between 0 and 65535, not -1\nrequired but missing: postgresql"},
	} {
		t.Run(name, func(t *testing.T) {
			d := sound()
			var table, list bytes.Buffer
			d.host, d.out = c.machine, &table
			if c.change != nil {
				c.change(&d)
			}
			if err := d.Run(t.Context()); (err == nil) != (c.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), c.wrong) {
				t.Error(err)
			}
			d.JSON, d.out = true, &list
			_ = d.Run(t.Context()) // only the output is of interest
			var findings []finding
			if err := json.Unmarshal(list.Bytes(), &findings); err != nil {
				t.Fatal(err)
			}
			for _, line := range c.lines {
				want := strings.SplitN(line, "|", 3)
				if !slices.ContainsFunc(findings, func(f finding) bool {
					return f.State == want[0] && f.Name == want[1] && strings.Contains(f.Says, want[2])
				}) {
					t.Errorf("no %s in\n%s", line, &table)
				}
			}
			if lines := strings.Count(table.String(), "\n"); lines != len(findings) {
				t.Errorf("table has %d lines for %d findings:\n%s", lines, len(findings), &table)
			}
			if strings.Contains(table.String()+list.String(), "hunter2") {
				t.Errorf("a secret is shown:\n%s", &table)
			}
		})
	}
}

// TestDoctorOnThisMachine checks that every finding on the actual machine has a state and a text.
func TestDoctorOnThisMachine(t *testing.T) {
	t.Parallel()
	d := sound()
	var out bytes.Buffer
	d.out, d.DatabaseURL, d.JSON = &out, "postgres://db/x", true
	if err := d.Run(t.Context()); err != nil {
		t.Error(err)
	}

	var findings []finding
	if err := json.Unmarshal(out.Bytes(), &findings); err != nil || len(findings) < 15 {
		t.Fatal(err, out.String())
	}

	for _, f := range findings {
		if !slices.Contains([]string{stateOK, stateMissing, stateOff}, f.State) || f.Name == "" || f.Says == "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestBannerSaysWhatCanBeDone(t *testing.T) {
	t.Parallel()
	lines := capabilityLines([]workers.Capability{
		{Name: "sandbox", State: "bubblewrap   (Python 3.11.2)", Ok: true},
		{Name: "sandbox", State: "none: no program bwrap"},
		{Name: "sandbox", State: "off"},
		{Name: "voice", State: "espeak-ng, pocketsphinx", Ok: true},
		{Name: "voice", State: "espeak-ng, openai/x", Ok: true},
		{Name: "voice", State: "off"},
	}, hintsFor(&config.Workers{}).voice)

	var out strings.Builder
	if err := bannerText.Execute(&out, map[string]any{"Busy": "", "Can": lines, "Search": "wikipedia"}); err != nil {
		t.Fatal(err)
	}

	want := `  search      wikipedia
  sandbox     bubblewrap   (Python 3.11.2)
  sandbox     none: no program bwrap   (see parley doctor)
  sandbox     off   (to run code: SANDBOX=bubblewrap make run)
  voice       espeak-ng, pocketsphinx   (for a real model: OPENAI_API_KEY=… make run)
  voice       espeak-ng, openai/x
  voice       off

  Chat with a template`
	if !strings.Contains(out.String(), want) {
		t.Error(out.String())
	}
}
