// Package openapi contains the HTTP contract: openapi.yaml, a handwritten OpenAPI 3.1 document. The
// document is embedded. The service derives from it the JSON document, the data of the
// documentation pages, the text for language models, and the table of error codes. The test suites
// check every response against it, with package openapitest.
package openapi
