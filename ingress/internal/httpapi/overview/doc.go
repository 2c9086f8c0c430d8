// Package overview handles the request for the overview, the first page of the dashboard.
package overview
