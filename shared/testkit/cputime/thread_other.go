//go:build !linux

package cputime

import "time"

var began = time.Now()

func thread() time.Duration { return time.Since(began) }
