// Package usage handles the requests for an organization's usage, budgets, automations and limits,
// and for the overview. The dashboard's pages for usage, budgets and automations use these
// requests, and its first page uses the overview: which first steps are done, and the runs, budgets
// and problems that need a person.
//
// Packages usagedb and rundb compute usage and automations from the runs, including deleted runs.
// Budgets are rows that admins manage here; package dispatch and the workers enforce them. Limits
// are settings of the service, which callers can only read.
//
// The package writes only to the table budgets. It caches reports of usage in memory, separately in
// each ingress process.
package usage
