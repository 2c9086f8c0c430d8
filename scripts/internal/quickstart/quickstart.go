// Package quickstart helps tests to run `parley up`. It provides the environment of a fresh clone
// and reads the credentials that `parley up` writes for scripts.
package quickstart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
)

// BannerEnd is a part of the last line that `parley up` prints when it is ready.
const BannerEnd = "Press Ctrl-C to stop."

// Environment returns the environment variables for `parley up`: only the data directory and the
// port are set.
func Environment(dir string, port int) []string {
	return []string{
		"DATA_DIR=" + dir, "HOST=127.0.0.1", "PORT=" + strconv.Itoa(port), "DATABASE_URL=", "NATS_URL=", "SECRETS_KEY=",
		"OPENAI_API_KEY=", "OPENAI_BASE_URL=", "DEFAULT_MODEL=", "PUBLIC_URL=", "LOG_FORMAT=json",
	}
}

// Credentials is the content of credentials.json, which `parley up` writes for scripts. All fields
// are required.
type Credentials struct {
	BaseURL        string `json:"baseUrl"`
	APIKey         string `json:"apiKey"`
	OrganizationID string `json:"organizationId"`
	AgentID        string `json:"agentId"`
	LoginURL       string `json:"loginUrl"`
}

// ReadCredentials reads credentials.json from a data directory. It returns an error if the
// file's mode is not 600, or if a value is missing.
func ReadCredentials(dir string) (Credentials, error) {
	var creds Credentials
	path := filepath.Join(dir, "credentials.json")
	info, err := os.Stat(path)
	if err != nil {
		return creds, fmt.Errorf("looking for credentials: %w", err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return creds, fmt.Errorf("credentials.json has mode %o, want 600", mode)
	}

	raw, err := os.ReadFile(path)
	if err != nil {
		return creds, fmt.Errorf("reading credentials: %w", err)
	}
	if err := json.Unmarshal(raw, &creds); err != nil {
		return creds, fmt.Errorf("reading credentials.json: %w: %s", err, raw)
	}

	var missing []error
	for field, value := range reflect.ValueOf(creds).Fields() {
		if value.String() == "" {
			missing = append(missing, fmt.Errorf("credentials.json has no %s", field.Name))
		}
	}
	return creds, errors.Join(missing...)
}
