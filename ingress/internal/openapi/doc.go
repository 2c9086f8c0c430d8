// Package openapi holds the HTTP contract: openapi.yaml, an OpenAPI 3.1 document written by hand. It is
// embedded, and what the service serves of it is made from it: the document as JSON, the pages' data, the
// text for language models, the table of error codes. The test suites hold every response against it, with
// package openapitest.
package openapi
