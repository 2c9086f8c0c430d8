// Package openapiimport makes endpoints that an agent may call of the operations of an OpenAPI document, 3.0 or 3.1, in
// JSON or YAML. It is pure: nothing is fetched, and references lead only to places of the same document.
//
//	document ─► operations ─► chosen ones ─► address with variables ─┐
//	                                     └─► parameters, body ─► one JSON Schema ─► endpoint, or skipped with a reason
//
// A document is foreign: it is read as plain JSON values under bounds of size, depth and work. References are replaced by
// what they lead to, because not every model provider follows them; where one leads back to itself, or a schema is too
// large, what lies deeper is left open.
package openapiimport
