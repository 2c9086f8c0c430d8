package process

import (
	"testing"
	"time"
)

const sample = `4711 (a (strange) name) S 815 4711 4711 0 -1 4194560 1052 99 0 0 250 150 30 20 20 0 1 0 8123 1 2`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parseStat([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if want := (stat{parent: 815, own: 4 * time.Second, all: 4500 * time.Millisecond}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := parseStat([]byte("4711 (short) S 815")); err == nil {
		t.Error("half a line was accepted")
	}
}
