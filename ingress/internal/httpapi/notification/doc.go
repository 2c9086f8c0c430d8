// Package notification manages the endpoints that receive notifications.
package notification
