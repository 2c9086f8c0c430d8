package parley

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// allocatedMetric counts what the runtime has ever allocated on the heap, in bytes.
const allocatedMetric = "go_memstats_alloc_bytes_total"

// Allocated is how many bytes each process that runs has allocated since its start, by name: what its garbage collector has had to
// do with. To be told of it costs some 100 KB itself.
func (p *Parley) Allocated(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	for _, running := range p.Processes() {
		value, err := metric(ctx, p.metrics[running.Name], allocatedMetric)
		if err != nil {
			return nil, fmt.Errorf("reading what %s has allocated: %w", running.Name, err)
		}
		out[running.Name] = value
	}
	return out, nil
}

func metric(ctx context.Context, url, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", url, res.Status)
	}
	return find(res.Body, name)
}

// find gives the value of a metric without labels in Prometheus's text format.
func find(text io.Reader, name string) (float64, error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s is not told", name)
}
