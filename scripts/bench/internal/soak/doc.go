// Package soak has a day's runs go through an ingress and a worker as fast as they can, and looks at what the two fill meanwhile: memory,
// open files, goroutines. Days pass in seconds: results whose runs ended so long ago are made to have expired, and the sweeper erases them.
package soak
