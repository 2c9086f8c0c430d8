package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "deploy/compose.yaml"

// otherServices are the services in compose.yaml that do not run Parley's programs. Their
// environment variables are not Parley's settings.
var otherServices = []string{"postgres", "nats", "proxy"}

// checkCompose loads compose.yaml strictly, as Compose does. It checks the references and
// privileges of each service.
func checkCompose(root string) (errs []error) {
	settings, err := knownSettings(root)
	if err != nil {
		return []error{err}
	}

	project, err := loadProject(root)
	if err != nil {
		return []error{err}
	}

	dockerfile, err := read(root, "deploy/docker/Dockerfile")
	if err != nil {
		return []error{err}
	}

	for name, service := range project.Services {
		for _, err := range slices.Concat(checkGuards(service), checkFiles(project, service), checkImages(service, string(dockerfile))) {
			errs = append(errs, fmt.Errorf("service %s: %w", name, err))
		}
		if slices.Contains(otherServices, name) {
			continue
		}
		for key := range service.Environment {
			if !settings[key] {
				errs = append(errs, fmt.Errorf("service %s: %s is not a setting in docs/settings.md", name, key))
			}
		}
	}
	return errs
}

// loadProject loads compose.yaml with a value for every variable that it requires.
func loadProject(root string) (*types.Project, error) {
	raw, err := read(root, composeFile)
	if err != nil {
		return nil, err
	}

	var env []string
	for _, asked := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(string(raw), -1) {
		env = append(env, asked[1]+"=p0")
	}

	made, err := read(root, "deploy/compose-init.sh")
	if err != nil {
		return nil, err
	}

	for _, setting := range env {
		name, _, _ := strings.Cut(setting, "=")
		if !strings.Contains(string(made), strings.TrimSuffix(name, "_PASSWORD")) {
			return nil, fmt.Errorf("compose.yaml requires %s, which compose-init.sh does not create", name)
		}
	}

	options, err := cli.NewProjectOptions([]string{filepath.Join(root, composeFile)}, cli.WithEnv(env), cli.WithConsistency(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

// checkGuards checks that a service has no unnecessary privileges.
func checkGuards(s types.ServiceConfig) (errs []error) {
	refuse := func(bad bool, what string) {
		if bad {
			errs = append(errs, fmt.Errorf("%s", what))
		}
	}

	refuse(s.Privileged || len(s.CapAdd) > 0 || !slices.Contains(s.CapDrop, "ALL"), "the container has capabilities")
	refuse(!s.ReadOnly, "the container may write to its root file system")
	refuse(!slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "the container may gain privileges")
	refuse(s.User == "0" || s.User == "root", "the container runs as root")
	refuse(s.Restart == "", "the container is not restarted")
	refuse(s.NetworkMode != "" || s.Pid != "" || s.Ipc != "", "the container shares namespaces with the machine")
	refuse(s.HealthCheck == nil && slices.Contains([]string{"postgres"}, s.Name), "the container has no health check")
	return errs
}

// checkFiles checks that the files mounted into a service exist.
func checkFiles(project *types.Project, s types.ServiceConfig) (errs []error) {
	for _, volume := range s.Volumes {
		if volume.Type != types.VolumeTypeBind {
			continue
		}
		if _, err := os.Stat(volume.Source); err != nil {
			errs = append(errs, err)
		}
		if !volume.ReadOnly {
			errs = append(errs, fmt.Errorf("the container may write to %s", volume.Source))
		}
	}

	for _, option := range s.SecurityOpt {
		path, found := strings.CutPrefix(option, "seccomp:")
		if !found {
			continue
		}
		profile, err := os.ReadFile(project.RelativePath(path))
		if err == nil && !json.Valid(profile) {
			err = fmt.Errorf("%s is not JSON", path)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkImages checks that the images of services can be built. The name of an image must not
// contain a registry, because users choose the registry.
func checkImages(s types.ServiceConfig, dockerfile string) (errs []error) {
	if s.Build != nil && !strings.Contains(dockerfile, " AS "+s.Build.Target+"\n") {
		errs = append(errs, fmt.Errorf("the Dockerfile has no target %s", s.Build.Target))
	}

	images := []string{s.Image}
	if s.Build != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Build.Args)) {
			if !strings.Contains(dockerfile, "ARG "+name+"=") {
				errs = append(errs, fmt.Errorf("the Dockerfile has no argument %s", name))
			}
			if value := s.Build.Args[name]; value != nil {
				images = append(images, *value)
			}
		}
	}

	for _, image := range images {
		if first, _, found := strings.Cut(image, "/"); found && strings.ContainsAny(first, ".:") {
			errs = append(errs, fmt.Errorf("%s names a registry", image))
		}
	}
	return errs
}

// knownSettings returns the names of the settings in docs/settings.md.
func knownSettings(root string) (map[string]bool, error) {
	table, err := read(root, "docs/settings.md")
	if err != nil {
		return nil, err
	}

	known := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, name := range regexp.MustCompile("`([A-Z][A-Z0-9_]+)`").FindAllStringSubmatch(line, -1) {
			known[name[1]] = true
		}
	}

	if len(known) == 0 {
		return nil, fmt.Errorf("docs/settings.md names no settings")
	}
	return known, nil
}
