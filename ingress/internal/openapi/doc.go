// Package openapi contains the HTTP contract: openapi.yaml, a handwritten OpenAPI 3.1 document. The
// document is embedded. The service uses it to generate the JSON document, the documentation pages,
// the text for language models, and the table of error codes. The test suites check every response
// against it, with package openapitest.
//
//	openapi.yaml ─► read ─┬─► Document     (JSON, with HEAD)   GET /openapi.json
//	                      ├─► Read         (Reference)         /docs/api, /llms.txt
//	                      └─► ErrorCodes, Words                /docs/errors
//
// The document is parsed at the first use and kept for the life of the process. All results are
// computed from it and are safe for concurrent use. Errors in the document are found by the tests,
// so functions of this package return no errors: they panic, or return zero values.
//
// The handlers do not use the document to check requests. They have their own rules, and the tests
// compare these rules with the document.
package openapi
