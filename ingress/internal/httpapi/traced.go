package httpapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/metric/noop"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/telemetry/tracing"
)

// traced begins a span for each request. The parent is the span in the request's traceparent.
// Health checks and metrics are not traced. The name of a span is that of the route, so that it
// contains no ids.
func (a *api) traced() gin.HandlerFunc {
	return otelgin.Middleware("parley",
		otelgin.WithTracerProvider(a.Tracer.Provider()),
		otelgin.WithMeterProvider(noop.NewMeterProvider()), // /metrics already provides the metrics
		otelgin.WithPropagators(a.Tracer.Outside()),
		otelgin.WithFilter(func(req *http.Request) bool { return !isOperational(req.URL.Path) }))
}

// annotate adds the request's ids and its error, if any, to the request's span. It must be called
// when the status is known. A status of 500 or more marks the span as failed.
func annotate(c *gin.Context, st *httpx.State, status int) {
	span := tracing.Current(c.Request.Context())
	if !span.On() {
		return
	}

	span.Str("parley.request.id", st.RequestID)
	span.Str("parley.organization.id", st.Ident.Caller.OrganizationID)
	span.Str("parley.agent.id", st.AgentID)
	span.Str("parley.run.id", st.RunID)
	if status >= http.StatusInternalServerError {
		span.Fail(strconv.Itoa(status))
	}
}
