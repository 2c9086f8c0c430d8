// Package providers creates the registry with the models of all providers. Only this package
// imports all providers.
package providers
