// Package overview handles the request for the overview, the first page of the dashboard. The page
// shows which first steps are done, and the runs and problems that need a person.
//
// The package reads the database through overviewdb and budgetdb, and stores nothing.
package overview
