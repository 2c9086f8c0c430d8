// Package httpx contains the code that the HTTP handlers share. It reads requests strictly, renders
// responses and errors, pages through lists, writes streams and enforces limits. It contains
// nothing that belongs to a single endpoint.
//
//   - Bind and Collect decode a JSON body; Problems collects its problems.
//   - Fail responds with an error, WriteJSON with a value, SendStream with server-sent events.
//   - ReadPage and NewList make the pages of a list.
//   - Limiter counts requests and open streams. SessionChecks creates a SessionCheck, which
//     ends a stream when its credential is revoked.
//   - Route is a row of the route table.
//
// Each request has a State with its caller and the ids for its log line.
package httpx
