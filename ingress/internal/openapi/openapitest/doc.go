// Package openapitest checks the service against its OpenAPI document. kin-openapi loads and
// validates the document, and its parsed form says which responses an operation has. Bodies,
// headers and events are validated by the JSON Schema 2020-12 implementation that kin-openapi uses
// for OpenAPI 3.1. This package compiles each schema once. kin-openapi would compile it for every
// response, and would apply the rules of OpenAPI 3.0 to some schemas.
//
// Check validates one exchange; the test harnesses call it for each exchange. At the end of a
// package's tests, Main reports the documented responses that the tests did not receive.
package openapitest
