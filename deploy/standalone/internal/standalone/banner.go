package standalone

import (
	"context"
	_ "embed" // the banner's text
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

// banner is what `parley up` prints once the service answers.
type banner struct {
	seeds   seeder
	model   string
	search  string // what the web is searched with
	can     []workers.Capability
	busy    string // why the wanted port was not used
	dataDir string
	began   time.Time
	json    bool
}

// bannerFile is a file of its own because its commands are pasted: each is one line, however long.
//
//go:embed banner.tmpl
var bannerFile string

var bannerText = template.Must(template.New("banner").Parse(bannerFile))

// present seeds the service and prints the banner.
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
		creds, b.busy, b.dataDir, modelLine(b.model), searchLine(b.search), capabilityLines(b.can),
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

// presentJSON prints what credentials.json holds, and where it stands.
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

// realOne follows what does without a provider.
const realOne = "   (for a real model: OPENAI_API_KEY=… make run)"

func modelLine(model string) string {
	if strings.HasPrefix(model, "offline") {
		return model + realOne
	}
	return model
}

func searchLine(engine string) string {
	if engine == "wikipedia" {
		return engine + "   (for another engine: SEARXNG_URL=… make run)"
	}
	return engine
}

// isOfflineVoice tells whether agents speak and listen with what is installed, which mishears much.
func isOfflineVoice(c workers.Capability) bool {
	return c.Name == "voice" && c.Ok && c.State == path.Base(config.OfflineSpeak)+", "+path.Base(config.OfflineListen)
}

// capabilityLines says what to do about what is missing.
func capabilityLines(can []workers.Capability) []workers.Capability {
	lines := make([]workers.Capability, len(can))
	for i, c := range can {
		switch {
		case isOfflineVoice(c):
			c.State += realOne
		case c.Name == "voice": // it says what to do itself
		case c.State == "off":
			c.State += "   (to run code: SANDBOX=bubblewrap make run)"
		case !c.Ok:
			c.State += "   (see parley doctor)"
		}
		lines[i] = c
	}
	return lines
}
