//go:build !containers

package testkit

import (
	"context"
	"errors"
)

// errNoContainers is what asking for containers gives without the code for them.
var errNoContainers = errors.New("PARLEY_TEST_CONTAINERS is set: run the tests with -tags containers, as make test-containers does")

func postgresContainer(context.Context) (string, error) { return "", errNoContainers }

func natsContainer(context.Context) (string, error) { return "", errNoContainers }
