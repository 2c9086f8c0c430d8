// Package overview handles the request for the overview with which the dashboard begins.
package overview
