// Package openapitest holds what the service does against what its OpenAPI document says. The document is
// loaded and checked by kin-openapi, whose model says what an operation may answer. Bodies, headers and events
// are validated against its schemas by the JSON Schema 2020-12 implementation that kin-openapi uses for
// OpenAPI 3.1 too, each schema compiled once: kin-openapi itself compiles it anew for every response, and
// falls back to the rules of OpenAPI 3.0 for some.
//
// Check validates one exchange; the test harnesses give it every one. Main ends a package's tests with what
// of the document they did not see.
package openapitest
