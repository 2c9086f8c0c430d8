package openapitest

// Base is the package whose tests must receive every documented response, except those in the map
// elsewhere.
const Base = "httpapi"

// other is the package whose tests must receive the responses that the map elsewhere assigns to it.
const other = "ingress"

// elsewhere lists the responses that Base's tests do not receive. The value is the package whose
// tests receive the response, or the reason why no test does. "* → 500" means the status 500 of
// every operation. An entry that is no longer needed is reported by Main.
var elsewhere = map[string]string{
	"* → 500": "no request may cause this response; TestPanics and TestDocumentsThatFail check its form",

	"GET /api/events → 503": "the handler does not use the database: only the lookup of the credential can cause this response",

	"POST /api/agents → 410":                  other,
	"GET /api/runs → 410":                     other,
	"POST /api/runs → 410":                    other,
	"POST /api/internal/run-automation → 410": other,
	"POST /api/internal/run-automation → 503": other,
	"POST /v1/chat/completions → 410":         other,
	"POST /v1/chat/completions → 422":         other,
	"POST /v1/chat/completions → 503":         other,
}
