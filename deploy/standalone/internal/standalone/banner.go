package standalone

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/template"
	"time"
)

// banner is what `parley up` prints once the service answers.
type banner struct {
	seeds   seeder
	model   string
	busy    string // why the wanted port was not used
	dataDir string
	began   time.Time
}

var bannerText = template.Must(template.New("banner").Parse(`
  Parley is ready: {{.BaseURL}}   ({{.Took}})
{{- if .Busy}}
  ({{.Busy}}){{end}}

  dashboard   {{.LoginURL}}
              (this link works once)
  API key     {{.APIKey}}
  agent       {{.AgentID}}
  data        {{.DataDir}}   (credentials.json has all of the above)

  model       {{.Model}}

  Chat with a template, without an account:
  curl -s '{{.BaseURL}}/api/agents?template=tpl_support&action=chat' -H 'x-tenant-id: tenant_demo' -H 'Content-Type: application/json' -d '{"sessionId":"s1","message":"Hello, what can you do?"}'

  Chat with the demo agent:
  curl -s '{{.BaseURL}}/api/agents?id={{.AgentID}}&action=chat' -H 'x-api-key: {{.APIKey}}' -H 'Content-Type: application/json' -d '{"sessionId":"s1","message":"What is 12 * 34?"}'

  Run it from a scheduler; send it again and the answer is the same, not a second run:
  curl -s '{{.BaseURL}}/api/internal/run-automation' -H 'x-api-key: {{.APIKey}}' -H 'x-trigger-type: schedule' -H 'x-automation-id: nightly' -H 'Content-Type: application/json' -d '{"target":"{{.AgentID}}","input":{"message":"Say good night"},"idempotencyKey":"night-1"}'

  Ctrl-C stops it.

`))

// present seeds the service and prints the banner.
func (b *banner) present(ctx context.Context) error {
	creds, err := b.seeds.seed(ctx)
	if err != nil {
		return err
	}
	var out strings.Builder
	err = bannerText.Execute(&out, struct {
		credentials
		Busy, DataDir, Model string
		Took                 time.Duration
	}{creds, b.busy, b.dataDir, modelLine(b.model), time.Since(b.began).Round(10 * time.Millisecond)})
	if err != nil {
		return fmt.Errorf("rendering banner: %w", err)
	}
	_, err = os.Stdout.WriteString(out.String())
	if err != nil {
		return fmt.Errorf("printing banner: %w", err)
	}
	return nil
}

func modelLine(model string) string {
	if strings.HasPrefix(model, "offline") {
		return model + "   (a real one: OPENAI_API_KEY=… make run)"
	}
	return model
}
