// Package host contains the parts that all backends share: the files of the host that sandboxes
// show, this process's rights, and the streams of started programs.
package host
