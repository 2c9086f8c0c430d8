package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// checkKubernetes checks the manifests of the example overlay, which includes the base.
func checkKubernetes(root string) []error {
	c, errs := buildCluster(root)
	if len(errs) > 0 {
		return errs
	}

	settings, err := knownSettings(root)
	if err != nil {
		return []error{err}
	}

	for _, w := range c.workloads() {
		for _, err := range slices.Concat(c.checkWorkload(w), checkRights(w), c.checkEnvironment(w, settings)) {
			errs = append(errs, fmt.Errorf("%s: %w", w.name, err))
		}
	}
	return slices.Concat(errs, c.checkServices(), c.checkIngresses(), c.checkSelectors(), c.checkScaling())
}

// matching returns the workloads whose pods match a selector.
func (c *cluster) matching(selector *metav1.LabelSelector) (found []workload, err error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	for _, w := range c.workloads() {
		if s.Matches(labels.Set(w.template.Labels)) {
			found = append(found, w)
		}
	}
	return found, nil
}

// checkWorkload checks the references between a workload and its own pods.
func (c *cluster) checkWorkload(w workload) (errs []error) {
	if w.selector != nil {
		s, err := metav1.LabelSelectorAsSelector(w.selector)
		if err != nil || !s.Matches(labels.Set(w.template.Labels)) {
			errs = append(errs, errors.New("the selector does not select the workload's own pods"))
		}
	}

	spec := w.template.Spec
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
	}

	for _, claim := range w.claims {
		volumes[claim.Name] = true
	}

	for _, spread := range spec.TopologySpreadConstraints {
		s, err := metav1.LabelSelectorAsSelector(spread.LabelSelector)
		if err != nil || !s.Matches(labels.Set(w.template.Labels)) {
			errs = append(errs, errors.New("the topology spread constraint does not select the workload's own pods"))
		}
	}

	for _, container := range spec.Containers {
		errs = append(errs, checkContainer(container, volumes, w.selector != nil)...)
	}
	return errs
}

// checkContainer checks the mounts and probes of a container. A container that does not end by
// itself needs every probe.
func checkContainer(container corev1.Container, volumes map[string]bool, longRunning bool) (errs []error) {
	for _, mount := range container.VolumeMounts {
		if !volumes[mount.Name] {
			errs = append(errs, fmt.Errorf("there is no volume %s", mount.Name))
		}
	}

	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			if longRunning {
				errs = append(errs, fmt.Errorf("%s lacks a probe", container.Name))
			}
			continue
		}
		if !hasPort(container, probe.HTTPGet.Port) {
			errs = append(errs, fmt.Errorf("a probe uses the port %s, which %s does not have", probe.HTTPGet.Port.String(), container.Name))
		}
	}
	return errs
}

func hasPort(container corev1.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
		return p.Name == port.StrVal && port.Type == intstr.String || p.ContainerPort == port.IntVal && port.Type == intstr.Int
	})
}

// checkRights checks that the pods of a workload have no unnecessary privileges.
func checkRights(w workload) (errs []error) {
	spec := w.template.Spec
	refuse := func(bad bool, what string) {
		if bad {
			errs = append(errs, errors.New(what))
		}
	}

	pod := spec.SecurityContext
	refuse(pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot, "the pod may run as root")
	refuse(pod == nil || pod.SeccompProfile == nil, "the pod has no seccomp profile")
	refuse(spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken, "the pod gets a token for the cluster's API")
	refuse(spec.HostNetwork || spec.HostPID || spec.HostIPC, "the pod shares namespaces with the node")
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		own := container.SecurityContext
		if own == nil {
			refuse(true, container.Name+" has no securityContext")
			continue
		}
		refuse(own.Privileged != nil && *own.Privileged, container.Name+" is privileged")
		refuse(own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation, container.Name+" may gain privileges")
		refuse(own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem, container.Name+" may write to its root file system")
		rights := own.Capabilities
		refuse(rights == nil || !slices.Contains(rights.Drop, "ALL") || len(rights.Add) > 0, container.Name+" has capabilities")
		refuse(container.Resources.Limits.Memory().IsZero(), container.Name+" has no memory limit")
		refuse(!imageTagged.MatchString(container.Image), container.Name+" has an image without a version: "+container.Image)
	}
	return errs
}

var (
	imageTagged = regexp.MustCompile(`^[a-z0-9-]+(/[a-z0-9-]+)*(:[0-9][\w.-]*|@sha256:[0-9a-f]{64})$`)
	reference   = regexp.MustCompile(`\$\((\w+)\)`)
)

// checkEnvironment checks that the sources of environment variables exist, and that each variable
// is one of Parley's settings.
func (c *cluster) checkEnvironment(w workload, settings map[string]bool) (errs []error) {
	for _, container := range w.template.Spec.Containers {
		defined := map[string]bool{}
		for _, from := range container.EnvFrom {
			names, err := c.environmentKeys(from)
			if err != nil {
				errs = append(errs, err)
			}
			for _, name := range names {
				defined[name] = true
			}
		}
		for _, env := range container.Env {
			if err := c.checkSecret(env); err != nil {
				errs = append(errs, err)
			}
			for _, used := range reference.FindAllStringSubmatch(env.Value, -1) {
				if !defined[used[1]] {
					errs = append(errs, fmt.Errorf("%s uses %s, which is not set earlier", env.Name, used[1]))
				}
			}
			defined[env.Name] = true
		}
		for name := range defined {
			if !settings[name] && !isPassword.MatchString(name) && w.name != "nats" {
				errs = append(errs, fmt.Errorf("%s is not a setting in docs/settings.md", name))
			}
		}
	}
	return errs
}

// checkSecret checks that a secret exists if it provides an environment variable. It does not check
// other sources.
func (c *cluster) checkSecret(env corev1.EnvVar) error {
	if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil {
		return nil
	}
	ref := env.ValueFrom.SecretKeyRef
	if secret := c.secrets[ref.Name]; secret == nil || !hasKey(secret, ref.Key) {
		return fmt.Errorf("there is no secret %s with a key %s", ref.Name, ref.Key)
	}
	return nil
}

// isPassword matches variables that occur only in URLs of other settings.
var isPassword = regexp.MustCompile(`^[A-Z_]*PASSWORD$`)

// environmentKeys returns the keys of a secret or config map, each of which becomes an environment
// variable.
func (c *cluster) environmentKeys(from corev1.EnvFromSource) (names []string, err error) {
	switch {
	case from.ConfigMapRef != nil:
		config := c.configs[from.ConfigMapRef.Name]
		if config == nil {
			return nil, fmt.Errorf("there is no config map %s", from.ConfigMapRef.Name)
		}
		for name := range config.Data {
			names = append(names, name)
		}
	case from.SecretRef != nil:
		secret := c.secrets[from.SecretRef.Name]
		if secret == nil {
			return nil, fmt.Errorf("there is no secret %s", from.SecretRef.Name)
		}
		for name := range secret.StringData {
			names = append(names, name)
		}
		for name := range secret.Data {
			names = append(names, name)
		}
	}
	return names, nil
}

func hasKey(secret *corev1.Secret, key string) bool {
	_, plain := secret.StringData[key]
	_, encoded := secret.Data[key]
	return plain || encoded
}
