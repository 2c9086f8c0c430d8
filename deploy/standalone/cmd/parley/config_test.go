package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/deploy/standalone/internal/cli"
	"parley/deploy/standalone/internal/console"
)

type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// configured runs `parley config` in an environment with only the variables in env. It returns the
// printed settings.
func configured(t *testing.T, env map[string]string, args ...string) (table map[string]setting, raw string) {
	t.Helper()
	table, raw, warnings, err := configuredWarning(t, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	if warnings != "" {
		t.Errorf("warnings: %s", warnings)
	}
	return table, raw
}

// configuredWarning is like configured. It also returns the output on the standard error, and the
// error of the command.
func configuredWarning(t *testing.T, env map[string]string, args ...string) (table map[string]setting, raw, warnings string, failed error) {
	t.Helper()
	for _, f := range newParser(new(commands)).Model.Leaves(false) {
		for _, flag := range f.Flags {
			for _, name := range flag.Envs {
				if _, set := os.LookupEnv(name); set {
					t.Setenv(name, "")                        // restores the variable after the test
					if err := os.Unsetenv(name); err != nil { //nolint:forbidigo // an empty variable differs from an unset variable
						t.Fatal(err)
					}
				}
			}
		}
	}

	for name, value := range env {
		t.Setenv(name, value)
	}

	chosen, err := newParser(new(commands)).Parse(append([]string{"config", "--json"}, args...))
	if err != nil {
		t.Fatal(err)
	}

	var out, errs bytes.Buffer
	chosen.BindTo(t.Context(), (*context.Context)(nil))
	failed = chosen.Run(&console.Console{Out: &out, Err: &errs})

	var list []setting
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}

	table = map[string]setting{}
	for _, s := range list {
		table[s.Name] = s
	}
	return table, out.String(), errs.String(), failed
}

// TestConfigHasEverySettingOfItsTable checks that `parley config` and docs/settings.md list the
// same settings.
func TestConfigHasEverySettingOfItsTable(t *testing.T) { //nolint:paralleltest // uses the process's environment
	page, err := os.ReadFile("../../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}

	var documented []string
	name := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	for line := range strings.Lines(string(page)) {
		if columns := strings.Split(line, "|"); len(columns) > 1 { // the first column has the names
			for _, match := range name.FindAllStringSubmatch(columns[1], -1) {
				documented = append(documented, match[1])
			}
		}
	}

	all, _ := configured(t, nil)
	roles, _ := configured(t, map[string]string{"ROLES": "ingress,agent"})
	for _, name := range documented {
		_, up := all[name]
		_, serve := roles[name]
		if wantUp, wantServe := name != "ROLES", name != "DATA_DIR"; up != wantUp || serve != wantServe {
			t.Errorf("%s: shown for up = %v, want %v; for serve = %v, want %v", name, up, wantUp, serve, wantServe)
		}
	}

	for name := range all {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/settings.md", name)
		}
	}
}

func TestConfigSaysWhereValuesCameFrom(t *testing.T) { //nolint:paralleltest // uses the process's environment
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secrets.key"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}

	env := map[string]string{
		"DATA_DIR": dir, "PORT": "9000", "LIMIT_DEMO": "3", "OPENAI_API_KEY": "hunter2", "DEFAULT_MODEL": "",
		"DATABASE_URL":  "postgres://u:hunter2@db:5432/x?sslmode=disable&sslpassword=hunter2",
		"NATS_URL":      "nats://hunter2@a:4222,nats://v:hunter2@b:4222",
		"WIKIPEDIA_URL": "https://de.wikipedia.org", "OIDC_ISSUER": "https://login.example", "OIDC_CLIENT_ID": "parley",
		"OIDC_CLIENT_SECRET": "hunter2", "PUBLIC_URL": "https://parley.example",
		"AUDIO_API_KEY": "hunter2", "AUDIO_BASE_URL": "https://u:hunter2@audio.example/v1",
	}

	got, raw := configured(t, env, "--limit-demo=4", "--tavily-api-key=hunter2")
	for name, want := range map[string]setting{
		"PORT":               {"PORT", "9000", "environment"},
		"LIMIT_DEMO":         {"LIMIT_DEMO", "4", "flag"},
		"LIMIT_USER":         {"LIMIT_USER", "300", "default"},
		"OPENAI_API_KEY":     {"OPENAI_API_KEY", "***", "environment"},
		"OIDC_CLIENT_SECRET": {"OIDC_CLIENT_SECRET", "***", "environment"},
		"TAVILY_API_KEY":     {"TAVILY_API_KEY", "***", "flag"},
		"BRAVE_API_KEY":      {"BRAVE_API_KEY", "", "default"},
		"AUDIO_API_KEY":      {"AUDIO_API_KEY", "***", "environment"},
		"AUDIO_BASE_URL":     {"AUDIO_BASE_URL", "https://u:***@audio.example/v1", "environment"},
		"DATABASE_URL":       {"DATABASE_URL", "postgres://u:***@db:5432/x?sslmode=disable&sslpassword=***", "environment"},
		"NATS_URL":           {"NATS_URL", "nats://***@a:4222,nats://v:***@b:4222", "environment"},
		"WIKIPEDIA_URL":      {"WIKIPEDIA_URL", "https://de.wikipedia.org", "environment"},
		"SECRETS_KEY":        {"SECRETS_KEY", "*** (" + filepath.Join(dir, "secrets.key") + ")", "generated file"},
		"DEFAULT_MODEL":      {"DEFAULT_MODEL", "(openai/gpt-5-mini)", "default"},
	} {
		if got[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}

	if strings.Contains(raw, "hunter2") {
		t.Errorf("a secret is shown:\n%s", raw)
	}
}

// TestConfigHasSettingsOfItsRoles checks that the output omits the settings that the selected roles
// do not use.
func TestConfigHasSettingsOfItsRoles(t *testing.T) { //nolint:paralleltest // uses the process's environment
	for roles, want := range map[string][2]bool{"ingress": {true, false}, "agent,tool": {false, true}, "ingress,sweep": {true, true}} {
		got, _ := configured(t, nil, "--roles", roles)
		_, ingress := got["LIMIT_DEMO"]
		_, worker := got["SANDBOX"]
		if ingress != want[0] || worker != want[1] {
			t.Errorf("%s: shows settings of the ingress = %v, of workers = %v", roles, ingress, worker)
		}
		if key := got["SECRETS_KEY"]; key.Value != "" || key.From != "default" {
			t.Errorf("%s: key = %+v, but serve generates no key", roles, key)
		}
	}
}

// TestConfigWarnsOfRemovedSettings sets a removed setting in the environment. `parley config` must name
// the setting on standard error, and omit the setting from the printed table.
func TestConfigWarnsOfRemovedSettings(t *testing.T) { //nolint:paralleltest // uses the process's environment
	table, _, warnings, err := configuredWarning(t, map[string]string{"SANDBOX_WARM": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if _, shown := table["SANDBOX_WARM"]; shown || !strings.HasPrefix(warnings, "SANDBOX_WARM was removed and has no effect: ") || strings.Count(warnings, "\n") != 1 {
		t.Errorf("in the table: %v, warnings: %q", shown, warnings)
	}
}

// TestConfigRejectsInvalidSettings checks that the command fails if the service would not start.
// The command still prints the settings in this case. It ignores invalid settings that the selected
// roles do not read.
func TestConfigRejectsInvalidSettings(t *testing.T) { //nolint:paralleltest // uses the process's environment
	for _, c := range []struct{ name, value, roles, want string }{
		{"PRICES_CURRENCY", "gold", "", `PRICES_CURRENCY must be the ISO 4217 code of a currency, such as USD or EUR, not "gold"`},
		{"PRICES_CURRENCY", "gold", "sweep", `PRICES_CURRENCY must be the ISO 4217 code of a currency, such as USD or EUR, not "gold"`},
		{"PRICES_CURRENCY", "EUR", "", ""},
		{"LIMIT_DEMO", "0", "", "limits must rise"},
		{"LIMIT_DEMO", "0", "agent", ""},
		{"TOOL_CONCURRENCY", "-1", "", "TOOL_CONCURRENCY must not be negative"},
		{"TOOL_CONCURRENCY", "-1", "ingress", ""},
		{"SECRETS_KEY", "short", "", "SECRETS_KEY is invalid"},
		{"DATABASE_URL", "db:5432", "", "DATABASE_URL must begin with postgres://"},
		{"DATABASE_URL", "host=db dbname=parley", "", ""},
		{"NATS_REPLICAS", "-1", "", "NATS_REPLICAS must be"},
		{"MODEL_PRICES", "openai/gpt-5-mini", "", "reading MODEL_PRICES"},
		{"MODEL_PRICES", "openai/gpt-5-mini", "ingress", ""},
		{"DEFAULT_MODEL", "openai/gpt-5-mini", "", "resolving DEFAULT_MODEL"},
	} {
		t.Run(c.name+" "+c.value+" "+c.roles, func(t *testing.T) {
			env := map[string]string{c.name: c.value}
			if c.roles != "" {
				env["ROLES"] = c.roles
			}
			table, _, _, err := configuredWarning(t, env)
			if _, shown := table["PRICES_CURRENCY"]; !shown {
				t.Errorf("the settings are not printed: %v", table)
			}
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || cli.Code(t.Context(), err) != cli.ExitArguments):
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}
