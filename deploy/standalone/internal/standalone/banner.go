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
	search  string // description of the search engine
	can     []workers.Capability
	busy    string // why the configured port could not be used; empty: it is used
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

// realModelHint is printed after the name of the offline model, which needs no provider.
const realModelHint = "   (for a real model: OPENAI_API_KEY=… make run)"

func modelLine(model string) string {
	if strings.HasPrefix(model, "offline") {
		return model + realModelHint
	}
	return model
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

// capabilityLines adds to each missing capability the way to enable it.
func capabilityLines(can []workers.Capability) []workers.Capability {
	lines := make([]workers.Capability, len(can))
	for i, c := range can {
		switch {
		case isOfflineVoice(c):
			c.State += realModelHint
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
