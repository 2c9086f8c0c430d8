package tracing

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/XSAM/otelsql"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// errSecondConnector is returned if a library requests more than one connector from a singleDriver.
var errSecondConnector = errors.New("the driver supports only one connector")

// Connector wraps a connector, so that statements are traced if their context has a span. The trace
// contains a statement's operation and table, but not its text or arguments. A tracer without a
// collector returns the connector unchanged.
func (t *Tracer) Connector(connector driver.Connector) (driver.Connector, error) {
	// Without a collector, statements must not have the cost of the wrapper.
	if !t.On() {
		return connector, nil
	}

	wrapped := otelsql.WrapDriver(singleDriver{connector},
		otelsql.WithTracerProvider(t.provider),
		otelsql.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelsql.WithAttributes(attribute.String("db.system.name", "postgresql")),
		otelsql.WithSpanNameFormatter(func(_ context.Context, method otelsql.Method, query string) string {
			return statement(string(method), query)
		}),
		otelsql.WithSpanOptions(otelsql.SpanOptions{
			DisableQuery: true, DisableErrSkip: true,
			OmitConnResetSession: true, OmitConnPrepare: true, OmitRows: true, OmitConnectorConnect: true,
			SpanFilter: wanted,
		}))

	opener, ok := wrapped.(driver.DriverContext)
	if !ok {
		return nil, errSecondConnector // cannot happen: a wrapped singleDriver implements DriverContext
	}

	traced, err := opener.OpenConnector("")
	if err != nil {
		return nil, fmt.Errorf("setting up traces of SQL statements: %w", err)
	}

	return traced, nil
}

// wanted reports whether a statement is part of a trace. Most statements of background loops are
// not part of a trace.
func wanted(ctx context.Context, _ otelsql.Method, _ string, _ []driver.NamedValue) bool {
	return trace.SpanFromContext(ctx).IsRecording()
}

// singleDriver is a driver that has only one connector. It exists for a library that wraps drivers.
type singleDriver struct{ driver.Connector }

// Open and OpenConnector implement driver.Driver and driver.DriverContext. Only OpenConnector is
// used.
func (o singleDriver) Open(string) (driver.Conn, error)               { return nil, errSecondConnector }
func (o singleDriver) OpenConnector(string) (driver.Connector, error) { return o.Connector, nil }

// maxName is the maximum length of a name that becomes part of a span's name.
const maxName = 64

// statement is the name of a statement's span, for example "UPDATE runs" or "SELECT accept_runs":
// the statement's first word, and the table or function to which it applies. It contains no values.
// If there is no statement, the name is that of the driver's method.
func statement(method, query string) string {
	words := strings.Fields(query)
	if len(words) == 0 {
		return strings.TrimPrefix(method, "sql.")
	}

	verb := strings.ToUpper(words[0])
	var before string
	switch verb {
	case "SELECT", "DELETE", "WITH":
		before = "FROM"
	case "INSERT":
		before = "INTO"
	case "UPDATE":
		before = verb
	default: // SET LOCAL and similar: the next word may be a value
		return verb
	}

	for i, word := range words[:len(words)-1] {
		if strings.EqualFold(word, before) {
			if name := identifier(words[i+1]); name != "" {
				return verb + " " + name
			}
		}
	}

	if verb == "SELECT" && len(words) > 1 {
		if name := identifier(words[1]); name != "" && strings.Contains(words[1], "(") { // a function call without FROM
			return verb + " " + name
		}
	}

	return verb
}

// identifier returns the name at the start of a word, or "" if there is none.
func identifier(word string) string {
	end := strings.IndexFunc(word, func(r rune) bool {
		return r != '_' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end < 0 {
		end = len(word)
	}
	return word[:min(end, maxName)]
}
