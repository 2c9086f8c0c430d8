// Package machine asks the machine for what stands beside the figures: the CPU time and memory that
// processes have taken, and what a write to the disk costs. Without /proc neither is known.
package machine
