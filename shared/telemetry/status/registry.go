package status

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Checks contains a function for each server that a process depends on, by the server's name. The
// function returns an error if the server is not usable.
type Checks map[string]func(context.Context) error

// checkTTL is how long the metrics reuse the result of a check.
const checkTTL = 5 * time.Second

// NewRegistry returns a registry with the metrics that every process has: the state of the process
// itself, of its database connection pool, and of the servers that it depends on. Each process has
// one registry, in which its components register their own metrics.
func NewRegistry(db *sql.DB, checks Checks) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&pool{db}, &dependencies{checks: checks, up: map[string]float64{}},
	)
	return registry
}

var (
	// Metrics of the connection pool.
	poolConns = prometheus.NewDesc("parley_database_connections", "Database connections of this process, by state.", []string{"state"}, nil)
	poolMax   = prometheus.NewDesc("parley_database_connections_max", "Maximum database connections of this process.", nil, nil)
	poolWaits = prometheus.NewDesc("parley_database_waits_total", "Waits for a database connection.", nil, nil)
	poolTime  = prometheus.NewDesc("parley_database_wait_seconds_total", "Time spent waiting for database connections.", nil, nil)

	dependencyUp = prometheus.NewDesc("parley_dependency_up", "1 if a server that this process depends on responds, otherwise 0.",
		[]string{"dependency"}, nil)
)

// pool collects the metrics of a connection pool.
type pool struct{ db *sql.DB }

// Describe implements prometheus.Collector.
func (p *pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolMax, poolWaits, poolTime} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *pool) Collect(to chan<- prometheus.Metric) {
	s := p.db.Stats()
	to <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(s.InUse), "in_use")
	to <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(s.Idle), "idle")
	to <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(s.MaxOpenConnections))
	to <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.WaitCount))
	to <- prometheus.MustNewConstMetric(poolTime, prometheus.CounterValue, s.WaitDuration.Seconds())
}

// dependencies checks whether servers are reachable. The checks run when the metrics are read, at
// most once in checkTTL.
type dependencies struct {
	checks Checks

	mu        sync.Mutex
	checkedAt time.Time
	up        map[string]float64
}

// Describe implements prometheus.Collector.
func (d *dependencies) Describe(to chan<- *prometheus.Desc) { to <- dependencyUp }

// Collect runs the checks, unless their last results are recent.
func (d *dependencies) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// If several scrapers read the metrics at the same time, the servers are checked only once.
	if time.Since(d.checkedAt) > checkTTL {
		d.runChecks()
	}
	for name, up := range d.up {
		to <- prometheus.MustNewConstMetric(dependencyUp, prometheus.GaugeValue, up, name)
	}
}

// runChecks runs the checks concurrently. It sets the metric of each check to 1 if the check
// succeeds, and otherwise to 0.
func (d *dependencies) runChecks() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	var mu sync.Mutex
	var checking sync.WaitGroup
	for name, check := range d.checks {
		checking.Go(func() {
			up := 1.0
			if check(ctx) != nil {
				up = 0
			}
			mu.Lock()
			defer mu.Unlock()
			d.up[name] = up
		})
	}

	checking.Wait()
	d.checkedAt = time.Now()
}
