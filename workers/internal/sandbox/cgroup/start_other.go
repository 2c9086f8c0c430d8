//go:build !linux

package cgroup

import (
	"errors"
	"os/exec"
)

// Start starts a command in the group.
func (g *Group) Start(*exec.Cmd) error { return errors.New("cgroups need Linux") }

// trialStart fails, because cgroups need Linux.
func (g *Group) trialStart() error { return g.Start(nil) }
