// Package host contains the parts that all backends share: the host files that are visible in
// sandboxes, the rights of this process, and the standard streams of started programs.
package host
