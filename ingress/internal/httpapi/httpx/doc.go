// Package httpx is the kit of the HTTP handlers. It reads requests strictly, renders answers and errors, pages through lists, writes
// streams, and counts what callers use against their limits. It holds nothing of any one endpoint.
//
//   - Bind and Collect read a JSON body; Problems gathers what is wrong with it.
//   - Fail answers with an error, WriteJSON with a value, SendStream with server-sent events.
//   - ReadPage and NewList make the pages of a list.
//   - Limiter counts requests and open streams; SessionChecks makes a Permit, which ends a stream when its credential is revoked.
//   - Route is a row of the route table.
//
// A request's State holds who calls and what the request is about.
package httpx
