// Package process starts the servers that are measured, as processes of their own, and ends
// them again.
//
// A process writes into a log file, gets only the environment that it is given (settings of
// whoever starts the bench must not change what is measured), dies with the bench however
// that ends (Linux), and is told to stop by SIGTERM before it is killed. Group keeps several
// and stops them in the reverse order.
package process
