// Package providers creates the registry with the models of all providers. It is the only package
// that imports all providers.
package providers
