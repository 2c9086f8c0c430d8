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

// banner contains the values that `parley up` prints when the service is ready.
type banner struct {
	seeds   seeder
	model   string
	set     config.Workers
	search  string // description of the search engine
	can     []workers.Capability
	busy    string // reason why the configured port is not used; empty if it is
	dataDir string
	began   time.Time
	json    bool
}

// bannerFile is the template of the banner. Users paste its commands into terminals, so each
// command is on one line.
//
//go:embed banner.tmpl
var bannerFile string

var bannerText = template.Must(template.New("banner").Parse(bannerFile))

// present creates the first organization if necessary, and prints the banner.
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
		creds, b.busy, b.dataDir, modelLine(b.model, b.set), searchLine(b.search), capabilityLines(b.can, b.set),
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

// presentJSON prints the content of credentials.json together with the path of the file.
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

// realModelHint returns the hint after the name of an offline model. assignment is a setting with
// which a real model is used.
func realModelHint(assignment string) string {
	return "   (for a real model: " + assignment + " make run)"
}

// openAIKey is the setting for a real model if no provider is configured.
const openAIKey = "OPENAI_API_KEY=…"

// modelLine returns the default model. If it is offline although a provider is configured,
// DEFAULT_MODEL must name one of the provider's models.
func modelLine(model string, set config.Workers) string {
	switch {
	case !strings.HasPrefix(model, "offline"):
		return model
	case set.OpenAIAPIKey != "" || set.OpenAIBaseURL != "":
		return model + realModelHint("DEFAULT_MODEL=openai/…")
	case set.AnthropicAPIKey != "" || set.AnthropicBaseURL != "":
		return model + realModelHint("DEFAULT_MODEL=anthropic/…")
	default:
		return model + realModelHint(openAIKey)
	}
}

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

// capabilityLines adds to each missing capability the way to enable it. The address of
// OPENAI_BASE_URL may serve text only, so voice then needs an address of its own.
func capabilityLines(can []workers.Capability, set config.Workers) []workers.Capability {
	lines := make([]workers.Capability, len(can))
	for i, c := range can {
		switch {
		case isOfflineVoice(c) && set.OpenAIBaseURL != "":
			c.State += realModelHint("AUDIO_BASE_URL=…")
		case isOfflineVoice(c):
			c.State += realModelHint(openAIKey)
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
