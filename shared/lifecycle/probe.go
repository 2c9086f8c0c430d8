package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const probeWithin = 3 * time.Second

// Probe asks an address of this machine once, such as http://127.0.0.1:8080/readyz; an error says that the answer was not 200. It is
// the health check of containers that hold nothing else to ask with.
func Probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	client := http.Client{Transport: &http.Transport{}} // through no proxy that the environment names
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // its status is all that counts
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("probing: %s answered with %s", url, response.Status)
	}
	return nil
}
