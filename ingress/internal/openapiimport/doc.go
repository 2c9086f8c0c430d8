// Package openapiimport converts operations of an OpenAPI document, 3.0 or 3.1, in JSON or YAML, to
// endpoints that an agent may call. The conversion sends no requests, and references must stay
// within the document.
//
//	document ─► operations ─► chosen ones ─► address with variables ─┐
//	                                     └─► parameters, body ─► one JSON Schema ─► endpoint, or skipped with a reason
//
// Documents are untrusted. They are parsed as plain JSON values with limits on size, depth and
// processing. References are replaced with their targets, because not every model provider follows
// references. Below a certain depth, recursive and oversized schemas accept any value.
//
// Convert is the only entry point. The handler that imports endpoints into an agent calls Convert.
// The handler then applies the stricter rules for endpoints and stores the endpoints. The package
// keeps no state between calls, so calls may be concurrent.
//
// Two kinds of errors are distinguished. An Invalid means that the request cannot be fulfilled, and
// nothing is imported. A skip concerns one operation: the operation is reported with the reason,
// and the others are imported.
package openapiimport
