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

// errOther says that the driver of a connector was asked for another one.
var errOther = errors.New("this driver has one connector")

// Connector has the statements on a connector's connections traced where their contexts carry a span: by what they do and to
// what, without their text and their arguments. A tracer that sends nothing gives the connector as it is.
func (t *Tracer) Connector(connector driver.Connector) (driver.Connector, error) {
	if !t.On() {
		return connector, nil
	}
	wrapped := otelsql.WrapDriver(only{connector},
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
		return nil, errOther // not reached: only has the method
	}
	traced, err := opener.OpenConnector("")
	if err != nil {
		return nil, fmt.Errorf("setting up traces of statements: %w", err)
	}
	return traced, nil
}

// wanted reports whether a statement is part of a trace. Most of those of loops are of none.
func wanted(ctx context.Context, _ otelsql.Method, _ string, _ []driver.NamedValue) bool {
	return trace.SpanFromContext(ctx).IsRecording()
}

// only is a driver of one connector, for a library that wraps drivers.
type only struct{ driver.Connector }

func (o only) Open(string) (driver.Conn, error)               { return nil, errOther }
func (o only) OpenConnector(string) (driver.Connector, error) { return o.Connector, nil }

// nameMax bounds what is looked at of a statement's words.
const nameMax = 64

// statement names what a statement does, such as "UPDATE runs" or "SELECT accept_runs": its first word, and the table or
// function behind the word that introduces it. What has no statement is named by the method.
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
	default: // SET LOCAL and its like: what follows may be a value
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
		if name := identifier(words[1]); name != "" && strings.Contains(words[1], "(") { // a function by itself
			return verb + " " + name
		}
	}
	return verb
}

// identifier is the name that a word begins with, "" if it begins with none.
func identifier(word string) string {
	end := strings.IndexFunc(word, func(r rune) bool {
		return r != '_' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end < 0 {
		end = len(word)
	}
	return word[:min(end, nameMax)]
}
