package workers

import (
	"errors"
	"strings"
	"testing"

	"parley/shared/config"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/python"
)

func TestPackagesInOneLine(t *testing.T) {
	t.Parallel()
	for want, packages := range map[string][]python.Package{
		"": nil,
		"   (Python 3.11.2, numpy 1.24.2, pandas 1.5.3, matplotlib 3.6.3)": {
			{Name: "matplotlib", Version: "3.6.3"},
			{Name: "pandas", Version: "1.5.3"},
			{Name: "python", Version: "3.11.2"},
			{Name: "lxml", Version: "4.9.2"},
			{Name: "numpy", Version: "1.24.2"},
		},
		"   (Python 3.12.1)": {{Name: "python", Version: "3.12.1"}},
	} {
		if got := packageList(packages); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	list := packageCapabilities([]python.Package{{Name: "numpy", Version: "1.24.2"}})
	if len(list) != 4 || list[0] != (Capability{Name: "python"}) || list[1] != (Capability{Name: "numpy", State: "1.24.2", Ok: true}) {
		t.Errorf("%+v", list)
	}
}

func TestWhyThereIsNoSandbox(t *testing.T) {
	t.Parallel()
	if c := noSandbox(errSandboxOff); c != (Capability{Name: "sandbox", State: "off"}) {
		t.Errorf("%+v", c)
	}
	if c := noSandbox(errors.New("there is no program bwrap\nat all")); c != (Capability{Name: "sandbox", State: "none: there is no program bwrap at all"}) {
		t.Errorf("%+v", c)
	}
	if list := (&Workers{}).Capabilities(); len(list) != 0 {
		t.Errorf("without the role tool: %+v", list)
	}
	if list := (&Workers{cfg: Config{Roles: []Role{RoleTool}}, isolation: &isolation{none: errSandboxOff, noCode: errSandboxOff}}).Capabilities(); len(list) != 1 || list[0].Ok {
		t.Errorf("%+v", list)
	}
	if c := cgroupCapability(func() (*cgroup.Root, error) { return nil, errors.New("no cgroups are mounted") }); c.Ok || c.State != "no cgroups are mounted" {
		t.Errorf("%+v", c)
	}
}

// defaultConfig returns the default settings. In production, the package kong sets them.
func defaultConfig() Config {
	var cfg Config
	cfg.SandboxKind = config.SandboxOff
	return cfg
}

func find(t *testing.T, list []Capability, name string) Capability {
	t.Helper()
	for _, c := range list {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no %s in %+v", name, list)
	return Capability{}
}

func TestSurveyWithoutSandbox(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig()
	cfg.OpenAIAPIKey, cfg.AudioAPIKey, cfg.AudioBaseURL = "sk-secret", "sk-secret", "https://audio.example/v1"
	list := Survey(cfg)
	if c := find(t, list, "sandbox"); c.Ok || c.State != "off" {
		t.Errorf("%+v", c)
	}
	if c := find(t, list, "model"); !c.Ok || !strings.HasPrefix(c.State, "openai/") {
		t.Errorf("%+v", c)
	}
	if c := find(t, list, "voice"); c != (Capability{Name: "voice", State: "openai/gpt-4o-mini-tts, openai/gpt-4o-mini-transcribe", Ok: true}) {
		t.Errorf("%+v", c)
	}
	if c := find(t, list, "numpy"); c.Ok {
		t.Errorf("%+v", c)
	}
	if c := find(t, list, "cgroups"); c.State == "" {
		t.Errorf("%+v", c)
	}
	cfg.DefaultModel = "nobody/knows"
	if c := find(t, Survey(cfg), "model"); c.Ok || !strings.Contains(c.State, "nobody/knows") {
		t.Errorf("%+v", c)
	}
	for _, c := range list {
		if strings.Contains(c.State, "sk-secret") {
			t.Errorf("%+v", c)
		}
	}
}

func TestSurveyOfSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig()
	cfg.SandboxKind = "docker"
	const want = `SANDBOX must be bubblewrap, gvisor or off, not "docker"`
	if list := Survey(cfg); len(list) != 1 || list[0] != (Capability{Name: "settings", State: want}) {
		t.Errorf("%+v", list)
	}
}

// The survey opens only the configured sandbox. If that sandbox does not work, the survey reports
// this.
func TestSurveyOpensTheSandbox(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig()
	cfg.SandboxKind = config.SandboxBubblewrap
	list := Survey(cfg)
	c, interpreter := find(t, list, "sandbox"), find(t, list, "python")
	if c.Ok != interpreter.Ok || c.Ok != strings.HasPrefix(c.State, "bubblewrap") || !c.Ok && !strings.HasPrefix(c.State, "none: ") {
		t.Errorf("%+v %+v", c, interpreter)
	}
	if c.Ok && !strings.Contains(c.State, "(Python "+interpreter.State) {
		t.Errorf("%+v %+v", c, interpreter)
	}
	t.Log(list)
}

func TestDocumentsCapability(t *testing.T) {
	t.Parallel()
	whole := readers{poppler: "22.12", tesseract: "5.3", languages: []string{"deu", "eng"}}
	for _, c := range []struct {
		noSandbox error
		readers   readers
		want      Capability
	}{
		{nil, whole, Capability{Name: "documents", State: "poppler 22.12, tesseract 5.3 (deu, eng)", Ok: true}},
		{nil, readers{poppler: "22.12", tesseract: "5.3"}, Capability{Name: "documents", State: "poppler 22.12, tesseract 5.3", Ok: true}},
		{nil, readers{poppler: "22.12"}, Capability{Name: "documents", State: "poppler 22.12; no tesseract: scanned pages cannot be read", Ok: true}},
		{nil, readers{}, Capability{Name: "documents", State: "all except PDF: poppler is missing"}},
		{errors.New("no bwrap"), whole, Capability{Name: "documents", State: "none: no sandbox is available for reading documents"}},
		{errSandboxOff, whole, Capability{Name: "documents", State: "none: SANDBOX is off, and reading documents needs a sandbox"}},
	} {
		if got := documentsCapability(c.noSandbox, c.readers); got != c.want {
			t.Errorf("%+v", got)
		}
	}
	list := whole.capabilities()
	if len(list) != 2 || list[0] != (Capability{Name: "poppler", State: "22.12", Ok: true}) || list[1] != (Capability{Name: "tesseract", State: "5.3 (deu, eng)", Ok: true}) {
		t.Errorf("%+v", list)
	}
}

func TestVersionsOfReaders(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"pdftotext version 22.12.0\nCopyright 2005-2022": "22.12", "tesseract 5.3.0\n leptonica-1.82.0": "5.3", "tesseract v5.3.0.20221214": "5.3", "": "", "no": "", "x 7": "7",
	} {
		if got := versionIn(says); got != want {
			t.Errorf("%q: %q", says, got)
		}
	}
	if got := languagesIn("List of available languages in \"/usr/share\" (2):\neng\nosd\n"); len(got) != 1 || got[0] != "eng" {
		t.Errorf("%q", got)
	}
	if got := ask("no-such-program", "-v"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestEmbeddingsInOneLine(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig()
	if c := surveyEmbeddings(cfg); !c.Ok || !strings.HasPrefix(c.State, "none: ") {
		t.Errorf("%+v", c)
	}
	if cfg.EmbeddingsModel = "openai/text-embedding-3-small"; surveyEmbeddings(cfg).Ok {
		t.Error("there is nothing to ask for embeddings")
	}
	if cfg.OpenAIAPIKey = "sk-secret"; surveyEmbeddings(cfg) != (Capability{Name: "embeddings", State: cfg.EmbeddingsModel, Ok: true}) {
		t.Errorf("%+v", surveyEmbeddings(cfg))
	}
}

func TestVoiceThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	const want = "pocketsphinx is not installed (apt install pocketsphinx pocketsphinx-en-us); espeak-ng is not installed (apt install espeak-ng)"
	if c := surveyVoice(Config{}); c != (Capability{Name: "voice", State: want}) {
		t.Errorf("%+v", c)
	}
	cfg := Config{}
	cfg.AudioBaseURL, cfg.SpeechModel = "https://user:hunter2@audio.example/v1", config.OfflineSpeak
	if c := surveyVoice(cfg); c.Ok || !strings.Contains(c.State, "AUDIO_BASE_URL") || strings.Contains(c.State, "hunter2") {
		t.Errorf("%+v", c)
	}
}
