// Package notification manages the endpoints that receive notifications, and shows the
// notifications that were sent to them. An endpoint is a URL of the organization's choice. A
// notification is a signed request to that URL, for example about a failed run.
//
// The package only changes rows of notificationdb, which workers read: they send the notifications
// and retry failures. All requests require an admin.
//
// The signing secret of an endpoint is stored encrypted. Only the responses to its creation and its
// rotation contain it.
package notification
