package web

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"parley/shared/domain"
)

var update = flag.Bool("update", false, "rewrite the dashboard's table of model settings")

// The dashboard's table of the settings that each model accepts is a copy of the service's table
// and must be equal to it.
func TestTheDashboardHasTheTableOfModelSettings(t *testing.T) {
	t.Parallel()
	const file = "dashboard/pages/agent/modelsupport.ts"
	var want strings.Builder
	want.WriteString(`// The model settings that models accept. Generated from shared/domain/model_support.go by:
// cd ingress && go test ./web -run TableOfModelSettings -update
export interface Range {
  min: number;
  max: number;
}

export interface ModelSupport {
  prefix: string;
  temperature: Range | null;
  topP: Range | null;
  reasoningEffort: string[] | null;
  seed: boolean;
  stop: boolean;
  parallelToolCalls: boolean;
  samplesWithoutEffort?: boolean;
  oneOfSampling?: boolean;
  visibleStop?: boolean;
}

/** Returns what a model of a provider's own service accepts. */
export const supportFor = (model: string): ModelSupport => table.find((s) => model.startsWith(s.prefix))!;

const table: ModelSupport[] = [
`)
	rows := append(append([]domain.ModelSupport{}, domain.OpenAISupport...), domain.AnthropicSupport...)
	for _, row := range append(rows, domain.SupportFor("offline", false)) {
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString("  " + string(line) + ",\n")
	}
	want.WriteString("];\n")

	if *update {
		if err := os.WriteFile(file, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("%s is out of date: run go test ./web -update", file)
	}
}
