package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
)

// Keys groups the commands about API keys.
type Keys struct {
	Create KeysCreate `cmd:"" help:"Create an API key and print it once."`
	List   KeysList   `cmd:"" help:"List API keys, without their secrets."`
	Revoke KeysRevoke `cmd:"" help:"Revoke an API key permanently."`
}

// KeysCreate is the command that creates an API key.
type KeysCreate struct {
	Service
	Name    string `arg:"" help:"Name of the key."`
	Scope   string `name:"scope" default:"organization" enum:"organization,user" placeholder:"SCOPE" help:"Owner of the key: organization (the default), or user. Only a user's key can create a user's key."`
	Expires string `name:"expires" placeholder:"WHEN" help:"When the key expires: a duration, such as 30d or 720h, or a time, such as 2030-01-31T12:00:00Z. Default: never."`
}

// Help returns the description for the manual page of the command.
func (*KeysCreate) Help() string {
	return `Prints the key to standard output. It is shown only once: the service stores a hash of it.`
}

// Examples returns the examples on the manual page of the command.
func (*KeysCreate) Examples() string {
	return `parley keys create "nightly cron" --expires 30d
KEY=$(parley keys create ci)`
}

// Run creates the key and prints it. The request is not repeated after a lost response, because the
// service might then create a second key.
func (k *KeysCreate) Run(ctx context.Context, con *console.Console) error {
	body := map[string]any{"name": k.Name, "scope": k.Scope}
	if k.Expires != "" {
		at, err := instant(k.Expires, time.Now())
		if err != nil {
			return err
		}
		body["expiresAt"] = at
	}

	service, err := k.connect(usual)
	if err != nil {
		return err
	}

	answer, err := service.Call(ctx, parley.Request{Method: http.MethodPost, Path: "/api/keys", Body: body})
	if err != nil {
		return k.explain(err)
	}
	if k.JSON {
		return con.JSON(json.RawMessage(answer.Body))
	}

	var made struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	if err := answer.Into(&made); err != nil {
		return err
	}

	con.Notef("The key %s is shown only once:", made.ID)
	return con.Printf("%s\n", made.Key)
}

// instant parses a time or a duration, and returns the time in the format of RFC 3339. A duration
// is relative to now.
func instant(text string, now time.Time) (string, error) {
	if lasts, ok := parseDuration(text); ok {
		return now.Add(lasts).UTC().Format(time.RFC3339), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", exit(ExitArguments, "--expires must be like 30d, 720h or 2030-01-31T12:00:00Z, not %q", text)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// KeysList is the command that lists API keys.
type KeysList struct{ Service }

// Examples returns the examples on the manual page of the command.
func (*KeysList) Examples() string { return `parley keys list` }

// Run lists the keys that the caller may see. The list contains only the beginning and the end of
// each key.
func (k *KeysList) Run(ctx context.Context, con *console.Console) error {
	header := []string{"ID", "SCOPE", "KEY", "LAST USE", "ENDS", "NAME"}
	return printAll(ctx, con, &k.Service, "/api/keys", url.Values{}, header, func(key domain.APIKey) []string {
		return []string{
			key.ID, string(key.Scope), key.Prefix[:min(9, len(key.Prefix))] + "…" + key.LastFour, formatTime(key.LastUsedAt, "never"),
			formatTime(key.ExpiresAt, "never"), console.OneLine(key.Name),
		}
	})
}

// KeysRevoke is the command that revokes an API key.
type KeysRevoke struct {
	Service
	ID string `arg:"" help:"ID of the key (key_…), from parley keys list."`
}

// Help returns the description for the manual page of the command.
func (*KeysRevoke) Help() string {
	return `The key stops working within 5 seconds on every ingress. Runs that were started with the key continue.`
}

// Examples returns the examples on the manual page of the command.
func (*KeysRevoke) Examples() string { return `parley keys revoke key_01m7yq6d4gehatajbks6zzn8ya` }

// Run revokes the key.
func (k *KeysRevoke) Run(ctx context.Context, con *console.Console) error {
	service, err := k.connect(usual)
	if err != nil {
		return err
	}
	answer, err := service.Call(ctx, parley.Request{Method: http.MethodDelete, Path: "/api/keys", Query: url.Values{"id": {k.ID}}})
	if err != nil {
		return k.explain(describeNotFound(err, "key", k.ID))
	}
	if k.JSON {
		return con.JSON(json.RawMessage(answer.Body))
	}
	return con.Printf("revoked %s\n", k.ID)
}
