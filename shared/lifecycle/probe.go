package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// probeTimeout bounds a Probe.
const probeTimeout = 3 * time.Second

// Probe sends one request to a URL on this machine, for example http://127.0.0.1:8080/readyz, and
// returns an error unless the status is 200. It is the health check of containers that have no HTTP
// client.
func Probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}

	client := http.Client{Transport: &http.Transport{}} // without the proxy of the environment
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}

	defer func() { _ = response.Body.Close() }() // only the status is needed
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("probing: %s returned %s", url, response.Status)
	}

	return nil
}
