package standalone

import (
	"testing"

	"parley/shared/config"
)

// The banner names the setting that is missing for a real model, and no setting that is already
// set.
func TestBannerNamesTheMissingSetting(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]config.Workers{
		"offline   (for a real model: OPENAI_API_KEY=… make run)":          {},
		"offline   (for a real model: DEFAULT_MODEL=openai/… make run)":    {OpenAIAPIKey: "k", OpenAIBaseURL: "http://127.0.0.1:8000/v1"},
		"offline   (for a real model: DEFAULT_MODEL=anthropic/… make run)": {AnthropicBaseURL: "http://127.0.0.1:8000"},
	} {
		if got := modelLine("offline", hintsFor(&w).model); got != want {
			t.Errorf("model line = %q, want %q", got, want)
		}
	}
	if got := modelLine("openai/gpt-5-mini", "OPENAI_API_KEY=…"); got != "openai/gpt-5-mini" {
		t.Errorf("model line of a real model = %q", got)
	}

	offline := hintsFor(&config.Workers{OpenAIAPIKey: "k", OpenAIBaseURL: "http://127.0.0.1:8000/v1"}).voice
	if offline != "AUDIO_BASE_URL=…" {
		t.Errorf("setting for voice with a server of one's own = %q", offline)
	}
}

// TestProgramName checks that the login page shows a relative path of the program unchanged, but
// only the last part of an absolute path.
func TestProgramName(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"bin/parley": "bin/parley", "./parley": "./parley", "parley": "parley", "/srv/secret/parley": "parley"} {
		if got := programName(arg); got != want {
			t.Errorf("programName(%q) = %q, want %q", arg, got, want)
		}
	}
}
