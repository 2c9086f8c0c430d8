// Package notification keeps the endpoints that are told of events.
package notification
