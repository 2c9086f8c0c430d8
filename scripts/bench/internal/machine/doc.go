// Package machine asks the machine for what stands beside the figures: the CPU time that
// processes have taken, and what a write to the disk costs. Without /proc there is no CPU time.
package machine
