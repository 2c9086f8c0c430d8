package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lanes are the names of the consumers of the job stream. They equal the names of the lanes in
// shared/domain.
var lanes = []string{"chat", "automation", "ingest"}

// checkServices checks that each service selects existing pods and ports.
func (c *cluster) checkServices() (errs []error) {
	for name, service := range c.services {
		if len(service.Spec.Selector) == 0 {
			continue // intentional: requests to this service must fail
		}
		pods, err := c.matching(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		if err != nil || len(pods) == 0 {
			errs = append(errs, fmt.Errorf("service %s selects no pods", name))
		}
		for _, port := range service.Spec.Ports {
			for _, w := range pods {
				if !slices.ContainsFunc(w.template.Spec.Containers, func(k corev1.Container) bool { return hasPort(k, port.TargetPort) }) {
					errs = append(errs, fmt.Errorf("service %s uses port %s, which %s does not have", name, port.TargetPort.String(), w.name))
				}
			}
		}
	}

	for name, set := range c.statefulSets {
		if c.services[set.Spec.ServiceName] == nil {
			errs = append(errs, fmt.Errorf("%s: there is no service %s", name, set.Spec.ServiceName))
		}
	}
	return errs
}

// checkIngresses checks that ingresses lead to existing services, and that none exposes /metrics.
func (c *cluster) checkIngresses() (errs []error) {
	for name, in := range c.ingresses {
		closed := false
		for _, rule := range in.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if !c.serves(path.Backend) {
					errs = append(errs, fmt.Errorf("ingress %s routes to no service", name))
				} else if path.Path == "/metrics" {
					closed = len(c.services[path.Backend.Service.Name].Spec.Selector) == 0
				}
			}
		}
		if !closed {
			errs = append(errs, fmt.Errorf("ingress %s exposes /metrics", name))
		}
	}
	return errs
}

func (c *cluster) serves(to networkingv1.IngressBackend) bool {
	if to.Service == nil || c.services[to.Service.Name] == nil {
		return false
	}
	return slices.ContainsFunc(c.services[to.Service.Name].Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == to.Service.Port.Name || p.Port == to.Service.Port.Number
	})
}

// checkSelectors checks that each disruption budget and network policy selects existing pods. It
// also checks that a network policy denies traffic by default.
func (c *cluster) checkSelectors() (errs []error) {
	for name, budget := range c.budgets {
		if pods, err := c.matching(budget.Spec.Selector); err != nil || len(pods) != 1 {
			errs = append(errs, fmt.Errorf("disruption budget %s selects %d workloads, want one", name, len(pods)))
		}
	}

	denies := false
	for name, policy := range c.policies {
		all := len(policy.Spec.PodSelector.MatchLabels)+len(policy.Spec.PodSelector.MatchExpressions) == 0
		denies = denies || all && len(policy.Spec.PolicyTypes) == 2 && len(policy.Spec.Ingress)+len(policy.Spec.Egress) == 0
		pods, err := c.matching(&policy.Spec.PodSelector)
		if err != nil || len(pods) == 0 {
			errs = append(errs, fmt.Errorf("network policy %s selects no pods", name))
		}
		for _, rule := range policy.Spec.Ingress {
			errs = append(errs, c.checkPeers(name, rule.From)...)
			for _, port := range rule.Ports {
				if !slices.ContainsFunc(pods, func(w workload) bool {
					return slices.ContainsFunc(w.template.Spec.Containers, func(k corev1.Container) bool { return hasPort(k, *port.Port) })
				}) {
					errs = append(errs, fmt.Errorf("network policy %s allows port %s, which no container has", name, port.Port.String()))
				}
			}
		}
		for _, rule := range policy.Spec.Egress {
			errs = append(errs, c.checkPeers(name, rule.To)...)
		}
	}

	if !denies {
		errs = append(errs, fmt.Errorf("no network policy denies traffic by default"))
	}
	return errs
}

// checkPeers checks that each peer of a policy selects existing pods. It skips peers in other
// namespaces.
func (c *cluster) checkPeers(policy string, peers []networkingv1.NetworkPolicyPeer) (errs []error) {
	for _, peer := range peers {
		if peer.PodSelector == nil || peer.NamespaceSelector != nil {
			continue
		}
		if pods, err := c.matching(peer.PodSelector); err != nil || len(pods) == 0 {
			errs = append(errs, fmt.Errorf("a peer of network policy %s selects no existing pods", policy))
		}
	}
	return errs
}

// checkScaling checks that each scaler scales an existing workload, and that no two scalers scale
// the same workload. The manifests must not set the workload's number of replicas.
func (c *cluster) checkScaling() (errs []error) {
	scaled := map[string]string{}
	scale := func(by, target string) {
		d := c.deployments[target]
		switch {
		case d == nil:
			errs = append(errs, fmt.Errorf("%s scales %s, which does not exist", by, target))
		case d.Spec.Replicas != nil:
			errs = append(errs, fmt.Errorf("%s is scaled, but sets replicas: each release would restore that number", target))
		case scaled[target] != "":
			errs = append(errs, fmt.Errorf("%s is scaled twice, by %s and %s", target, scaled[target], by))
		}
		scaled[target] = by
	}

	for name, s := range c.scalers {
		scale("autoscaler "+name, s.Spec.ScaleTargetRef.Name)
	}

	for name, s := range c.kedaScalers {
		scale("scaled object "+name, s.Spec.ScaleTargetRef.Name)
		for _, trigger := range s.Spec.Triggers {
			m := trigger.Metadata
			if trigger.Type != "nats-jetstream" || m["account"] != "PARLEY" || m["stream"] != "JOBS" || !slices.Contains(lanes, m["consumer"]) {
				errs = append(errs, fmt.Errorf("scaled object %s follows an unknown consumer: %v", name, m))
			}
		}
	}
	return errs
}
