package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// overlay is the directory of the kustomization that is checked. It includes the base.
const overlay = "deploy/k8s/overlays/example"

// scaledObject is KEDA's type with only the fields that the manifests use. Decoding is strict, so
// any other field is an error.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion,omitempty"`
			Kind       string `json:"kind,omitempty"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval int32 `json:"pollingInterval,omitempty"`
		CooldownPeriod  int32 `json:"cooldownPeriod,omitempty"`
		MinReplicaCount int32 `json:"minReplicaCount,omitempty"`
		MaxReplicaCount int32 `json:"maxReplicaCount,omitempty"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// cluster contains all objects of the manifests, by kind and name.
type cluster struct {
	deployments  map[string]*appsv1.Deployment
	statefulSets map[string]*appsv1.StatefulSet
	jobs         map[string]*batchv1.Job
	services     map[string]*corev1.Service
	configs      map[string]*corev1.ConfigMap
	secrets      map[string]*corev1.Secret
	budgets      map[string]*policyv1.PodDisruptionBudget
	policies     map[string]*networkingv1.NetworkPolicy
	ingresses    map[string]*networkingv1.Ingress
	scalers      map[string]*autoscalingv2.HorizontalPodAutoscaler
	kedaScalers  map[string]*scaledObject
	namespaces   map[string]*corev1.Namespace
}

// buildCluster builds the kustomization and decodes each object strictly. Unknown and duplicate
// fields are errors.
func buildCluster(root string) (*cluster, []error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, overlay))
	if err != nil {
		return nil, []error{fmt.Errorf("building %s: %w", overlay, err)}
	}

	c, errs := &cluster{}, []error(nil)
	for _, r := range resources.Resources() {
		raw, err := r.AsYAML()
		if err == nil {
			err = c.add(r.GetApiVersion()+" "+r.GetKind(), raw)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err))
		}
	}
	return c, errs
}

// add decodes one object of a kind and stores it.
func (c *cluster) add(kind string, raw []byte) error {
	switch kind {
	case "apps/v1 Deployment":
		return decode(raw, &c.deployments)
	case "apps/v1 StatefulSet":
		return decode(raw, &c.statefulSets)
	case "batch/v1 Job":
		return decode(raw, &c.jobs)
	case "v1 Service":
		return decode(raw, &c.services)
	case "v1 ConfigMap":
		return decode(raw, &c.configs)
	case "v1 Secret":
		return decode(raw, &c.secrets)
	case "v1 Namespace":
		return decode(raw, &c.namespaces)
	case "policy/v1 PodDisruptionBudget":
		return decode(raw, &c.budgets)
	case "networking.k8s.io/v1 NetworkPolicy":
		return decode(raw, &c.policies)
	case "networking.k8s.io/v1 Ingress":
		return decode(raw, &c.ingresses)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return decode(raw, &c.scalers)
	case "keda.sh/v1alpha1 ScaledObject":
		return decode(raw, &c.kedaScalers)
	default:
		return fmt.Errorf("objects of the kind %s are not checked: add the kind to tools/manifests", kind)
	}
}

// decode decodes an object strictly and stores it under its name.
func decode[T any](raw []byte, into *map[string]*T) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(raw, object); err != nil {
		return err
	}

	var named struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}

	asJSON, err := yaml.YAMLToJSON(raw)
	if err == nil {
		err = json.Unmarshal(asJSON, &named)
	}
	if err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]*T{}
	}

	(*into)[named.Metadata.Name] = object
	return nil
}

// workload is an object that creates pods. It contains the template of these pods.
type workload struct {
	name     string
	selector *metav1.LabelSelector // nil for a Job
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
	replicas *int32
}

// workloads returns all objects that create pods.
func (c *cluster) workloads() (all []workload) {
	for name, d := range c.deployments {
		all = append(all, workload{name, d.Spec.Selector, d.Spec.Template, nil, d.Spec.Replicas})
	}
	for name, s := range c.statefulSets {
		all = append(all, workload{name, s.Spec.Selector, s.Spec.Template, s.Spec.VolumeClaimTemplates, s.Spec.Replicas})
	}
	for name, j := range c.jobs {
		all = append(all, workload{name, nil, j.Spec.Template, nil, nil})
	}
	return all
}
