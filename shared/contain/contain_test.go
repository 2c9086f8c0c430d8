package contain_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/contain"
)

func TestPanic(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	log := zerolog.New(&written)
	call := func(f func() error) (err error) {
		defer contain.Panic(&err, &log, "the call panicked")
		return f()
	}
	failure := errors.New("failed")
	if err := call(func() error { return failure }); !errors.Is(err, failure) || written.Len() > 0 {
		t.Errorf("without a panic: %v, %s", err, &written)
	}
	if err := call(func() error { panic("a secret") }); !errors.Is(err, contain.ErrPanic) {
		t.Errorf("after a panic: %v", err)
	}
	said := written.String()
	if strings.Contains(said, "secret") || !strings.Contains(said, `"panic":"string"`) || !strings.Contains(said, "TestPanic") {
		t.Errorf("log: %s", said)
	}
}
