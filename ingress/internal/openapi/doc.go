// Package openapi contains the HTTP contract: openapi.yaml, a handwritten OpenAPI 3.1 document. The
// document is embedded. The service uses it to generate the JSON document, the documentation pages,
// the text for language models, and the table of error codes. The test suites check every response
// against it, with package openapitest.
package openapi
