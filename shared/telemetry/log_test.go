package telemetry_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/telemetry"
)

func TestWarningsOfRemovedSettings(t *testing.T) {
	t.Setenv("DOCUMENT_PAGES", "100")
	t.Setenv("SANDBOX_WARM", "")
	var out bytes.Buffer
	telemetry.WarnOfRemovedSettings(zerolog.New(&out))
	const want = `{"level":"warn","setting":"DOCUMENT_PAGES","now":"a document may have 2000 pages",`
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "SANDBOX_WARM") {
		t.Errorf("log: %s", got)
	}
}
