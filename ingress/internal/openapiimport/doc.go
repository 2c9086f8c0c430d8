// Package openapiimport converts operations of an OpenAPI document, 3.0 or 3.1, in JSON or YAML, to
// endpoints that an agent may call. It is pure: it fetches nothing, and references must stay
// within the document.
//
//	document ─► operations ─► chosen ones ─► address with variables ─┐
//	                                     └─► parameters, body ─► one JSON Schema ─► endpoint, or skipped with a reason
//
// Documents are untrusted. They are parsed as plain JSON values with bounds on size, depth and
// work. References are replaced by their targets, because not every model provider follows them.
// Recursive and oversized schemas are left open below some depth.
package openapiimport
