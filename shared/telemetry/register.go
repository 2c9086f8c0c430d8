package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers collectors. It stops at the first collector that cannot be registered, for
// example because its name is taken.
func Register(registry prometheus.Registerer, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}
