// Package host is what both kinds of sandboxes need of the machine that they are made on: what they show of it, which rights this
// process has there, and how programs are started on it and listened to.
package host
