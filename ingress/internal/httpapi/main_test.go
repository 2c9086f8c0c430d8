package httpapi

import (
	"os"
	"testing"

	"parley/ingress/internal/openapi/openapitest"
)

func TestMain(m *testing.M) { os.Exit(openapitest.Main(m, "httpapi")) }
