package parley

import (
	"strings"
	"testing"
)

func TestFindReadsOneMetric(t *testing.T) {
	t.Parallel()
	const text = "# HELP go_memstats_alloc_bytes_total Bytes.\n# TYPE go_memstats_alloc_bytes_total counter\n" +
		"go_memstats_alloc_bytes 17\ngo_memstats_alloc_bytes_total 1.5e+06\n"
	got, err := find(strings.NewReader(text), allocatedMetric)
	if err != nil || got != 1.5e6 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := find(strings.NewReader(text), "go_memstats_frees_total"); err == nil {
		t.Error("found what is not there")
	}
}
