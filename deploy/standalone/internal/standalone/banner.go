package standalone

import (
	"context"
	_ "embed" // for banner.tmpl
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"text/template"
	"time"

	"parley/shared/config"
	"parley/workers"
)

// banner contains the values that `parley up` prints when the service is ready. It is printed once,
// to standard output.
type banner struct {
	seeds   seeder
	model   string
	hints   hints
	search  string // description of the search engine
	can     []workers.Capability
	busy    string // why the configured port could not be used; empty: the port is used
	dataDir string
	began   time.Time
	json    bool
}

// bannerFile is the template of the banner. Users paste its commands into terminals, so each
// command is on one line.
//
//go:embed banner.tmpl
var bannerFile string

// bannerText is the parsed template. A mistake in the template stops the program at its start.
var bannerText = template.Must(template.New("banner").Parse(bannerFile))

// present creates the first organization if necessary, and prints the banner. It is called when the
// ingress accepts requests, because seeding calls the service. An error ends the service.
func (b *banner) present(ctx context.Context) error {
	creds, err := b.seeds.seed(ctx)
	if err != nil {
		return err
	}
	if b.json {
		return b.presentJSON(creds)
	}

	var out strings.Builder
	err = bannerText.Execute(&out, struct {
		credentials
		Busy, DataDir, Model, Search string

		Can  []workers.Capability
		Took time.Duration
	}{
		creds, b.busy, b.dataDir, modelLine(b.model, b.hints.model), searchLine(b.search), capabilityLines(b.can, b.hints.voice),
		time.Since(b.began).Round(10 * time.Millisecond),
	})
	if err != nil {
		return fmt.Errorf("rendering banner: %w", err)
	}

	_, err = os.Stdout.WriteString(out.String())
	if err != nil {
		return fmt.Errorf("printing banner: %w", err)
	}
	return nil
}

// presentJSON prints the content of credentials.json together with the data directory and the
// default model, on one line.
func (b *banner) presentJSON(creds credentials) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		credentials
		DataDir string `json:"dataDir"`
		Model   string `json:"model"`
	}{creds, b.dataDir, b.model})
	if err != nil {
		return fmt.Errorf("printing credentials: %w", err)
	}
	return nil
}

// hints contains the settings that replace the offline models. The banner recommends only settings
// that are not set.
type hints struct{ model, voice string }

// hintsFor returns the settings to recommend. They differ if a provider is configured but offline
// models are used nevertheless.
func hintsFor(w *config.Workers) hints {
	h := hints{model: "OPENAI_API_KEY=…", voice: "OPENAI_API_KEY=…"}
	switch {
	case w.OpenAIAPIKey != "" || w.OpenAIBaseURL != "":
		h.model = "DEFAULT_MODEL=openai/…"
	case w.AnthropicAPIKey != "" || w.AnthropicBaseURL != "":
		h.model = "DEFAULT_MODEL=anthropic/…"
	}
	if w.OpenAIBaseURL != "" { // the key for another server is not used for speech
		h.voice = "AUDIO_BASE_URL=…"
	}
	return h
}

// realModel returns the text that follows the name of an offline model.
func realModel(setting string) string { return "   (for a real model: " + setting + " make run)" }

// modelLine returns the name of the default model. For an offline model, the result also contains
// the setting that selects a real model.
func modelLine(model, setting string) string {
	if strings.HasPrefix(model, "offline") {
		return model + realModel(setting)
	}
	return model
}

// searchLine returns the name of the search engine. For the default engine, the result also
// contains the setting that selects another engine.
func searchLine(engine string) string {
	if engine == "wikipedia" {
		return engine + "   (for another engine: SEARXNG_URL=… make run)"
	}
	return engine
}

// isOfflineVoice reports whether voice sessions use the programs installed on this machine, which
// recognize speech poorly.
func isOfflineVoice(c workers.Capability) bool {
	return c.Name == "voice" && c.Ok && c.State == path.Base(config.OfflineSpeak)+", "+path.Base(config.OfflineListen)
}

// capabilityLines adds to each missing capability the way to enable it. voice is the setting that
// replaces the offline speech programs.
func capabilityLines(can []workers.Capability, voice string) []workers.Capability {
	lines := make([]workers.Capability, len(can))
	for i, c := range can {
		switch {
		case isOfflineVoice(c):
			c.State += realModel(voice)
		case c.Name == "voice": // the state already contains the remedy
		case c.State == "off":
			c.State += "   (to run code: SANDBOX=bubblewrap make run)"
		case !c.Ok:
			c.State += "   (see parley doctor)"
		}
		lines[i] = c
	}
	return lines
}
