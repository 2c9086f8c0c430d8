package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/console"
	"parley/shared/config"
)

// The sources of a setting's value, as the command prints them.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromDefault     = "default"
	fromFile        = "generated file"
)

// Config is the command that prints the settings with which the service would start. Its fields are
// the groups of settings that the parts of the service use, so the help texts and defaults are the
// same.
type Config struct {
	config.Servers   `group:"servers"`
	config.Logging   `group:"logging"`
	config.Telemetry `group:"telemetry"`
	config.Runs      `group:"runs"`
	config.Secrets   `group:"secrets"`
	config.Documents `group:"documents"`
	config.Ingress   `group:"ingress"`
	config.Workers   `group:"workers"`
	DataDir          string   `name:"data-dir" env:"DATA_DIR" default:"./.data" group:"standalone" help:"Where parley up keeps its data."`
	Roles            []string `name:"roles" env:"ROLES" enum:"ingress,agent,tool,ingest,sweep,voice,notify" group:"workers" help:"Show the settings of parley serve with these roles; default: the settings of parley up."`
	JSON             bool     `name:"json" help:"Print JSON instead of a table."`

	// CheckModels checks the settings of models. Only the workers, which this package does not
	// import, know the models.
	CheckModels func(config.Runs, config.Workers) error `kong:"-"`
}

// Help returns the description for the manual page of the command.
func (*Config) Help() string {
	return `Reads the flags and the environment like parley up (or, with --roles, like parley serve) and prints every setting with its value and source: a flag, the environment, a file that parley up creates, or the default. Starts nothing and connects to nothing. If the service would not start because of an invalid setting, the command prints the settings, then the error, and exits with 80.

Keys, secrets, and passwords in URLs are shown as ***.`
}

// Examples returns the examples on the manual page of the command.
func (*Config) Examples() string {
	return `parley config
PORT=9000 parley config --limit-demo 5 --json
parley config --roles ingress`
}

// setting is one row of the table that Config prints.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
	Group string `json:"-"`
}

// Run prints the table of settings, sorted by name. Settings that were removed from this release
// are reported on standard error. Run fails if the service would not start with the settings.
func (c *Config) Run(_ context.Context, con *console.Console, chosen *kong.Context) error {
	var list []setting
	for _, flag := range chosen.Selected().Flags {
		if len(flag.Envs) == 0 || flag.Group == nil || !c.reads(flag.Group.Key) {
			continue
		}
		if flag.Name == "roles" && len(c.Roles) == 0 {
			continue // parley up always starts all roles
		}
		list = append(list, c.setting(flag, from(chosen, flag)))
	}

	for _, removed := range config.Removed(os.Environ()) {
		con.Notef("%s was removed and has no effect: %s", removed.Name, removed.Now)
	}
	slices.SortStableFunc(list, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
	if err := c.print(con, list); err != nil {
		return err
	}
	return c.check()
}

// print prints the settings as a table or as JSON.
func (c *Config) print(con *console.Console, list []setting) error {
	if c.JSON {
		return con.JSON(list)
	}

	rows := [][]string{{"NAME", "FROM", "VALUE"}}
	for _, s := range list {
		rows = append(rows, []string{s.Name, s.From, or(s.Value, "-")})
	}
	return table(con, rows)
}

// check returns an error if the service would not start with the settings. The error describes the
// first invalid setting.
func (c *Config) check() error {
	err := cmp.Or(c.Servers.Check(), c.Runs.Check(), c.Telemetry.Check(), c.Documents.Check())
	if c.reads("ingress") {
		err = cmp.Or(err, c.Ingress.Check())
	}
	if c.reads("workers") {
		err = cmp.Or(err, c.Workers.Check(), c.CheckModels(c.Runs, c.Workers))
	}
	if c.SecretsKey != "" {
		err = cmp.Or(err, c.Secrets.Check())
	}
	return config.Invalid(err)
}

// reads reports whether the selected roles use a group of settings.
func (c *Config) reads(group string) bool {
	switch group {
	case "standalone":
		return len(c.Roles) == 0
	case "ingress":
		return len(c.Roles) == 0 || slices.Contains(c.Roles, "ingress")
	case "workers":
		return len(c.Roles) == 0 || slices.ContainsFunc(c.Roles, func(role string) bool { return role != "ingress" })
	default:
		return true
	}
}

// from returns the source of a setting's value. A flag takes precedence over the environment.
func from(chosen *kong.Context, flag *kong.Flag) string {
	for _, step := range chosen.Path {
		if step.Flag == flag && !step.Resolved {
			return fromFlag
		}
	}
	for _, name := range flag.Envs {
		if value, set := os.LookupEnv(name); set && (value != "" || flag.Default != "") {
			return fromEnvironment
		}
	}
	return fromDefault
}

// setting returns the row for a flag. Secrets are masked.
func (c *Config) setting(flag *kong.Flag, from string) setting {
	s := setting{Name: flag.Envs[0], From: from, Group: flag.Group.Key}
	s.Value = shown(s.Name, flag.Target.Interface())
	if len(c.Roles) > 0 || s.Value != "" {
		return s
	}

	// parley up computes the defaults of the following settings when it starts.
	switch s.Name {
	case "SECRETS_KEY":
		path := filepath.Join(c.DataDir, "secrets.key")
		s.Value, s.From = "(generated at the first start: "+path+")", fromDefault
		if _, err := os.Stat(path); err == nil {
			s.Value, s.From = masked+" ("+path+")", fromFile
		}
	case "DATABASE_URL":
		s.Value = "(a private PostgreSQL server in " + filepath.Join(c.DataDir, "postgres") + ")"
	case "NATS_URL":
		s.Value = "(an embedded NATS server)"
	case "DEFAULT_MODEL":
		s.Value = "(" + c.model() + ")"
	}
	return s
}

// model describes the default model that parley up would choose.
func (c *Config) model() string {
	switch {
	case c.OpenAIAPIKey != "" && c.OpenAIBaseURL == "":
		return "openai/gpt-5-mini"
	case c.AnthropicAPIKey != "" && c.AnthropicBaseURL == "":
		return "anthropic/claude-sonnet-5-5"
	default:
		return "offline"
	}
}

// masked is the text that replaces a secret.
const masked = "***"

// secretName and secretWord match the names of settings and parameters that contain secrets.
// keyValue matches the secrets in connection strings.
var (
	secretName = regexp.MustCompile(`(_KEY|_SECRET|PASSWORD|_TOKEN)$`)
	secretWord = regexp.MustCompile(`(?i)pass|secret|token|key`)
	keyValue   = regexp.MustCompile(`(?i)(pass\w*|secret\w*|token\w*)\s*=\s*('[^']*'|\S+)`)
)

// shown formats a value for the table. It masks secrets, also in URLs. A masked value does not show
// the length of the secret.
func shown(name string, value any) string {
	text := fmt.Sprint(value)
	if list, is := value.([]string); is {
		text = strings.Join(list, ",")
	}

	switch {
	case text == "":
		return ""
	case secretName.MatchString(name):
		return masked
	case strings.HasSuffix(name, "_URL") || strings.HasSuffix(name, "_ISSUER") || strings.HasSuffix(name, "_ENDPOINT"):
		parts := strings.Split(text, ",")
		for i, part := range parts {
			parts[i] = maskAddress(strings.TrimSpace(part))
		}
		return strings.Join(parts, ",")
	default:
		return text
	}
}

// maskAddress masks the credentials in a URL: the password, a user name without a password (it may
// be a token), and query parameters whose names suggest a secret. In a connection string of the
// form key=value, it masks passwords. It masks any other text completely.
func maskAddress(text string) string {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Opaque != "":
		return masked
	case at.Host == "" && at.Path == text && !strings.Contains(text, "@"): // a text such as "host=… password=…", or a host without a scheme
		return keyValue.ReplaceAllString(text, "$1="+masked)
	case at.Host == "" && at.Path != "" && at.Scheme != "postgres" && at.Scheme != "postgresql":
		return masked
	}

	user := ""
	if at.User != nil {
		user = masked + "@"
		if _, has := at.User.Password(); has {
			user = url.PathEscape(at.User.Username()) + ":" + masked + "@"
		}
	}

	query := at.RawQuery
	if query != "" {
		parts := strings.Split(query, "&")
		for i, part := range parts {
			if name, _, _ := strings.Cut(part, "="); secretWord.MatchString(name) {
				parts[i] = name + "=" + masked
			}
		}
		query = "?" + strings.Join(parts, "&")
	}
	return at.Scheme + "://" + user + at.Host + at.EscapedPath() + query
}
