package openapitest

// Base is the package whose tests see every answer of the document but those listed here.
const Base = "httpapi"

// other is the package whose tests see what those of Base need not; some of them do by chance.
const other = "ingress"

// elsewhere lists the answers that its tests do not see: the package whose tests do, or the reason why none does.
// "* → 500" is that status of every operation.
var elsewhere = map[string]string{
	"* → 500": "no request may bring one about; TestPanics and TestDocumentsThatFail see what one looks like",

	"GET /api/events → 503": "it reads nothing: only credentials that cannot be read bring it about, as they do of every operation",

	"POST /api/agents → 410":                  other,
	"GET /api/runs → 410":                     other,
	"POST /api/runs → 410":                    other,
	"POST /api/internal/run-automation → 410": other,
	"POST /api/internal/run-automation → 503": other,
	"POST /v1/chat/completions → 410":         other,
	"POST /v1/chat/completions → 422":         other,
	"POST /v1/chat/completions → 503":         other,
}
